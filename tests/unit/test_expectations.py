"""Expectations are declared exactly, and what cannot block is refused."""

import pytest

from kedro_lakehouse.config.expectations import KINDS, ExpectationConfig
from kedro_lakehouse.config.loading import load_declarations
from kedro_lakehouse.config.sources import DmsSourceConfig
from kedro_lakehouse.errors import ConfigurationError
from kedro_lakehouse.quality.results import last_validations, of_number, of_rows

pytestmark = pytest.mark.unit

SOURCES = {"shop": {"type": "dms", "path": "x"}}
TABLE = {"source": "shop", "keys": ["id"]}
UNIQUE = {"type": "expect_column_values_to_be_unique", "column": "email"}


def declare(*expectations, suites=None, **keys):
    tables = {"shop.a": TABLE | keys | {"expectations": list(expectations)}, "shop.b": TABLE}
    return load_declarations(SOURCES, tables, {"dms": DmsSourceConfig}, suites)


def refusal(*expectations, **more):
    with pytest.raises(ConfigurationError) as caught:
        declare(*expectations, **more)
    return caught.value


def suite(**expectation):
    return {"all": {"expectations": [{"table": "shop.a", "column": "x"} | UNIQUE | expectation]}}


def test_an_expectation_warns_about_rows_unless_told_otherwise():
    declared = declare(UNIQUE).tables
    (found,) = next(iter(declared.values())).expectations
    assert (found.severity, found.scope, found.nature) == ("warn", "rows", "unique")
    assert found.title == 'expect_column_values_to_be_unique(column="email")'


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"type": "expect_column_value_to_be_unique"}, "Did you mean 'expect_column_values_to_be_unique'?"),
        ({"colunm": "email"}, "Did you mean 'column'?"),
        ({"regex": "a"}, "'regex' is not a key of expect_column_values_to_be_unique"),
        ({"severity": "stop"}, "'stop' is not allowed"),
        ({"type": "expect_column_values_to_be_between"}, "needs min_value or max_value"),
        ({"type": "expect_column_values_to_be_in_set"}, "needs 'value_set'"),
        ({"mostly": 1.5}, "at most 1"),
    ],
)
def test_what_is_not_known_is_refused_by_name(wrong, words):
    error = refusal(UNIQUE | wrong)
    assert words in str(error)
    assert error.key.startswith("shop.a.expectations[0]")


@pytest.mark.parametrize(
    "kind", [k for k, v in KINDS.items() if v.nature in ("aggregate", "count", "engine")]
)
def test_what_speaks_of_the_whole_table_blocks_only_with_its_scope(kind):
    values = {
        "column": "x", "min_value": 1, "value": 1, "value_set": ["a"], "type_": "IntegerType",
    }  # fmt: skip
    wanted = (*KINDS[kind].needs, *KINDS[kind].one_of[:1])
    told = {"type": kind, "severity": "block"} | {k: values[k] for k in wanted}
    assert "only with `scope: table`" in str(refusal(told))
    declare(told | {"scope": "table"})


def test_freshness_and_what_looks_elsewhere_cannot_block():
    fresh = {"type": "expect_table_to_be_fresh", "max_age": "2 days", "severity": "block"}
    assert "Use `severity: warn`" in str(refusal(fresh))
    elsewhere = {
        "type": "expect_column_values_to_be_in_other_table", "column_list": ["x"], "other_table": "shop.b",
    }  # fmt: skip
    assert "suite of expectations.yml" in str(refusal(elsewhere))
    blocking = refusal(suites=suite(severity="block"))
    assert (blocking.file, blocking.key) == ("expectations.yml", "all.expectations[0].severity")
    assert "tables commit independently" in str(blocking)


def test_a_suite_names_declared_tables():
    assert declare(suites=suite()).suites["all"].tables == ("shop.a",)
    error = refusal(suites=suite(table="shop.aa"))
    assert (error.key, "Did you mean 'shop.a'?" in str(error)) == ("all.expectations[0].table", True)
    assert "[a-z][a-z0-9_]*" in str(refusal(suites={"All": suite()["all"]}))


def test_expectations_need_something_to_judge():
    assert "neither a current table nor a history" in str(refusal(UNIQUE, current=False))


def expectation(**keys):
    return ExpectationConfig.model_validate(keys)


@pytest.mark.parametrize(
    ("mostly", "unexpected", "success"), [(1, 0, True), (1, 1, False), (0.9, 1, True), (0.9, 2, False)]
)
def test_mostly_tells_how_many_rows_must_comply(mostly, unexpected, success):
    judged = of_rows(expectation(**UNIQUE, mostly=mostly), 10, unexpected)
    assert (judged.success, judged.elements, judged.unexpected) == (success, 10, unexpected)


@pytest.mark.parametrize(
    ("ends", "number", "success"),
    [
        ({"min_value": 2}, 2, True), ({"min_value": 2, "strict_min": True}, 2, False),
        ({"max_value": 2}, 3, False), ({"min_value": 1, "max_value": 2}, 1.5, True),
    ],
)  # fmt: skip
def test_a_number_lies_between_its_ends(ends, number, success):
    judged = of_number(expectation(type="expect_table_row_count_to_be_between", **ends), number)
    assert (judged.success, judged.observed) == (success, number)


def test_of_each_suite_the_newest_judgement_counts():
    rows = [
        {"suite": s, "judged_at": t, "expectation": e}
        for s, t, e in [("a", 1, "x"), ("a", 2, "y"), ("b", 1, "z")]
    ]
    assert [(r["suite"], r["expectation"]) for r in last_validations(rows)] == [("a", "y"), ("b", "z")]
