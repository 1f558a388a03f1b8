"""Expectations: a wrong batch is never seen, is told, and has two ways out."""

from __future__ import annotations

import json
import logging
import os
from typing import Any, Self

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result
from harness.project import TemporaryProject, write_parquet
from harness.soak import only_in_soak
from kedro.framework.session import KedroSession
from kedro.framework.startup import bootstrap_project
from kedro.validation import DataValidationError

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.commits import merge_frames
from kedro_lakehouse.config.expectations import ExpectationConfig
from kedro_lakehouse.errors import ExpectationFailedError
from kedro_lakehouse.quality.answers import answer
from kedro_lakehouse.quality.engine import answer_by_engine

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SHAPE = {
    "Op": pa.string(), "id": pa.int64(), "email": pa.string(), "state": pa.string(), "seq": pa.string(),
}  # fmt: skip
UNIQUE = {"type": "expect_column_values_to_be_unique", "column": "email", "severity": "block"}
KNOWN = {
    "type": "expect_column_values_to_be_in_set", "column": "state", "value_set": ["new", "old"],
    "severity": "block",
}  # fmt: skip
PERSON = {"source": "shop", "keys": ["id"], "history": True}
SOURCES = {"shop": {"type": "dms", "sequence_column": "seq", "path": "${globals:landing}/shop"}}
NOT_NULL = {"type": "expect_column_values_to_not_be_null", "column": "state"}
WAYS = {
    "shop.corrected": PERSON | {"expectations": [UNIQUE, KNOWN]},
    "shop.withdrawn": PERSON | {"expectations": [UNIQUE, KNOWN, NOT_NULL]},
}
SUITE = {
    "people": {
        "expectations": [
            {
                "type": "expect_column_values_to_be_in_other_table", "table": "shop.corrected",
                "column_list": ["id"], "other_table": "shop.withdrawn",
            },
            {
                "type": "expect_table_row_count_change_to_be_between", "table": "shop.withdrawn",
                "min_value": -0.1,
            },
            {"type": "expect_table_to_be_fresh", "table": "shop.corrected", "max_age": "0 seconds"},
        ]
    }
}  # fmt: skip
COUNT = {
    "type": "expect_table_row_count_to_be_between",
    "max_value": 4,
    "severity": "block",
    "scope": "table",
}
OTHERS = {
    "shop.counted": {"source": "shop", "write": "append", "expectations": [COUNT]},
    "shop.past": PERSON | {"current": False, "expectations": [KNOWN]},
}
GOOD = [("I", 1, "a@x", "new", 1), ("I", 2, "b@x", "new", 2), ("I", 3, "c@x", "old", 3)]
WRONG = [
    ("U", 1, "a@x", "old", 11),  # as it should be
    ("U", 2, "a@x", "new", 12),  # the email of person 1
    ("I", 4, "d@x", "gone", 13), ("U", 4, "d@x", "gone", 14),  # a state that there is not
    ("I", 5, "e@x", "new", 15), ("D", 3, None, None, 16),
]  # fmt: skip
CORRECTION = [("U", 2, "b2@x", "new", 21), ("U", 4, "d@x", "old", 22)]


def land(project: TemporaryProject, day: int, events: list[tuple[Any, ...]], *tables: str) -> None:
    rows = [dict(zip(SHAPE, (*e[:4], str(e[4])), strict=True)) for e in events]
    for table in tables or ("corrected", "withdrawn", "read", "counted", "past"):
        write_parquet(project.landing / f"shop/{table}/202601{day:02}-000001000.parquet", rows, SHAPE)


def call(project: TemporaryProject, *words: str) -> Result:
    before = os.getcwd()  # noqa: PTH109
    os.chdir(project.path)
    try:
        return CliRunner().invoke(lakehouse, words)
    finally:
        os.chdir(before)


def present(project: TemporaryProject, table: str) -> tuple[set[Any], set[Any]]:
    """The rows that readers of the current table and of the history's open versions see."""
    current = {(r["id"], r["email"], r["state"]) for r in project.rows(table)}
    history = {(r["id"], r["email"], r["state"]) for r in project.rows(f"{table}_history") if r["is_current"]}
    return current, history


class Reader(logging.Handler):
    """Reads a table twenty times when a commit of it is staged, and once when the run is over."""

    def __init__(self, project: TemporaryProject, table: str) -> None:
        super().__init__(logging.DEBUG)
        self._project, self._table = project, table
        self._logger = logging.getLogger("kedro_lakehouse.phase")
        self._level = self._logger.level
        self.seen: list[set[Any]] = []
        self.between = 0

    def emit(self, record: logging.LogRecord) -> None:
        facts = record.__dict__
        if (facts.get("phase"), facts.get("table"), facts.get("stage")) == ("staged", self._table, "current"):
            for _ in range(20):
                self.seen += present(self._project, self._table)
                self.between += 1

    def __enter__(self) -> Self:
        self._logger.setLevel(logging.DEBUG)
        self._logger.addHandler(self)
        return self

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self)
        self._logger.setLevel(self._level)
        self.seen += present(self._project, self._table)


BEFORE = {(1, "a@x", "new"), (2, "b@x", "new"), (3, "c@x", "old")}
BLOCKED, READ = "shop.withdrawn", "shop.read"
REST = [*WAYS, "ops"]


@pytest.fixture(params=[True, pytest.param(False, marks=pytest.mark.xfail(raises=AssertionError))])
def audited(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Runs a test with the audit, and again without it, where it must fail."""
    if not request.param:
        monkeypatch.setattr(merge_frames, "validate_stage", lambda *_, **__: None)
    return request.param


@pytest.fixture(scope="module")
def started(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    """Tables that hold the good batch; the wrong one has landed."""
    path = tmp_path_factory.mktemp("quality") / "p"
    project = TemporaryProject.make(path, SOURCES, WAYS | OTHERS | {READ: WAYS[BLOCKED]})
    project.write("expectations", SUITE)
    land(project, 1, GOOD)
    project.run()
    land(project, 2, WRONG)
    return project


def test_a_wrong_batch_is_never_seen(audited: bool, started: TemporaryProject) -> None:
    with Reader(started, READ) as reader:
        outcome = started.attempt(namespaces=[READ])
    assert reader.between >= 20
    assert all(seen == BEFORE for seen in reader.seen)
    error = outcome.failed[READ]
    assert isinstance(error, ExpectationFailedError)
    assert (error.batch, error.rows) == (2, 3)
    assert "expect_column_values_to_be_unique" in str(error)
    assert f"kedro lakehouse quarantine {READ} --batch 2" in str(error)
    assert "a@x" not in str(error)


@only_in_soak
def test_tables_without_keys_and_histories_alone_are_blocked_and_withdrawn_from(
    started: TemporaryProject,
) -> None:
    failed = started.attempt(namespaces=list(OTHERS)).failed
    assert {t: (e.batch, e.rows) for t, e in failed.items()} == {"shop.counted": (2, 0), "shop.past": (2, 1)}
    assert "the table as a whole fails the expectation expect_table_row_count" in str(failed["shop.counted"])
    assert [told(call(started, "quarantine", t, "--batch", "2", "--json"))["withdrawn"] for t in OTHERS] == [
        1,
        2,
    ]
    started.run(namespaces=list(OTHERS))
    assert len(started.rows("shop.counted")) == 3  # no row of the table can be blamed: the whole batch is
    _, history = present(started, "shop.past")
    assert history == {(1, "a@x", "old"), (2, "a@x", "new"), (5, "e@x", "new")}


def told(result: Result) -> Any:
    assert result.exit_code == 0, (result.output, result.exception)
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def mended(started: TemporaryProject) -> tuple[TemporaryProject, dict[str, Any]]:
    """Two tables that a wrong batch blocked: one got correcting events, the other withdrew its."""
    project = started
    seen: dict[str, Any] = {"refused": project.attempt(namespaces=REST).failed}
    seen["refusals"] = project.ops("quality_results")
    project.attempt(namespaces=REST)
    seen["refusals again"] = project.ops("quality_results")
    seen["wrong batch"] = call(project, "quarantine", BLOCKED, "--batch", "1")
    seen["withdrawal"] = told(call(project, "quarantine", BLOCKED, "--batch", "2", "--json"))
    land(project, 3, CORRECTION, "corrected")
    project.run(namespaces=REST)
    return project, seen


Mended = tuple[TemporaryProject, dict[str, Any]]


def test_correcting_events_publish_a_blocked_table(mended: Mended) -> None:
    project, seen = mended
    assert set(seen["refused"]) == set(WAYS)
    wanted = {(1, "a@x", "old"), (2, "b2@x", "new"), (4, "d@x", "old"), (5, "e@x", "new")}
    assert present(project, "shop.corrected") == (wanted, wanted)


WITHOUT = {(1, "a@x", "old"), (2, "b@x", "new"), (5, "e@x", "new")}


def test_withdrawing_a_batch_publishes_the_rest_of_it(mended: Mended) -> None:
    project, seen = mended
    # Who took another's email, and both events of the key with an unknown state.
    assert (seen["withdrawal"]["withdrawn"], seen["withdrawal"]["batch"]) == (3, 2)
    assert present(project, BLOCKED) == (WITHOUT, WITHOUT)
    listed = told(call(project, "quarantine", BLOCKED, "--decisions", "--json"))
    assert sorted(row["row"] for row in listed) == [2, 3, 4]
    assert {row["batch"] for row in listed} == {2}
    summed = told(call(project, "quarantine", "--decisions", "--json"))
    assert BLOCKED in {row["table"] for row in summed}


def test_only_a_failing_batch_can_be_withdrawn(mended: Mended) -> None:
    _, seen = mended
    assert seen["wrong batch"].exit_code == 1
    assert "NOTHING_TO_WITHDRAW" in seen["wrong batch"].stderr
    assert "are: 2" in seen["wrong batch"].stderr


def test_a_table_that_is_refused_again_writes_no_second_verdict(mended: Mended) -> None:
    _, seen = mended
    refusals = [r for r in seen["refusals"] if r["stage"] != "published" and r["table"] in WAYS]
    assert {(r["table"], r["stage"], r["batch"], r["unexpected"]) for r in refusals} == {
        (t, s, 2, n) for t in WAYS for s in ("current", "history") for n in (1, 2)
    }
    assert len(seen["refusals again"]) == len(seen["refusals"])


@only_in_soak
def test_late_events_and_rebuilds_honour_a_withdrawal(mended: Mended) -> None:
    project, _ = mended
    late = [("U", 2, "b3@x", "new", 30), ("U", 2, "b9@x", "old", 5)]
    land(project, 4, late, "withdrawn")
    project.run(namespaces=[BLOCKED])
    versions = sorted(
        (int(r["_order_from"]["seq"]), r["email"]) for r in project.rows(f"{BLOCKED}_history") if r["id"] == 2
    )
    assert versions == [(2, "b@x"), (5, "b9@x"), (30, "b3@x")]
    after = present(project, BLOCKED)
    told(call(project, "rebuild", BLOCKED, "--yes", "--json"))
    assert present(project, BLOCKED) == after
    told(call(project, "rebuild", BLOCKED, "--from-landing", "--yes", "--json"))
    assert project.state(f"{BLOCKED}_changes").batch == 1  # what was batch 2 is a part of it now
    assert present(project, BLOCKED) == after


def test_what_is_published_is_judged_once(mended: Mended) -> None:
    project, _ = mended
    project.run(namespaces=REST)
    before = {name: project.ops(name) for name in ("quality_results", "batches", "runs", "decisions")}
    assert project.run(namespaces=REST) == []
    assert {name: project.ops(name) for name in before} == before
    judged = [r for r in before["quality_results"] if r["stage"] == "published"]
    suite = [r for r in judged if r["suite"] == "people"]
    verdicts = {(r["type"], r["success"], r["unexpected"]) for r in suite}
    assert ("expect_column_values_to_be_in_other_table", False, 1) in verdicts
    assert all(r["success"] for r in judged if r["suite"] == BLOCKED)
    not_null = [r for r in judged if r["type"] == NOT_NULL["type"]]
    assert {(r["elements"], r["severity"], r["engine"]) for r in not_null} >= {(3, "warn", "aggregation")}


def test_a_stale_table_is_told_once(mended: Mended) -> None:
    project, _ = mended
    project.run("quality", namespaces=REST)
    stale = [(r["subject"].partition(":")[0], r["state"]) for r in project.ops("alerts")]
    assert stale == [("shop.corrected", "stale")]


def test_data_docs_show_results_and_no_row_value(mended: Mended) -> None:
    project, _ = mended
    project.run("data_docs")
    folder = project.path / "data/08_reporting/data_docs"
    pages = [p.read_text(encoding="utf-8") for p in folder.rglob("*.html")]
    assert (folder / "index.html").is_file()
    assert any("values must be unique" in page for page in pages)
    assert any("expect_column_values_to_be_in_other_table" in page for page in pages)
    assert not any("b@x" in page for page in pages)
    first = (folder / "index.html").stat().st_mtime_ns
    project.run("data_docs")
    assert (folder / "index.html").stat().st_mtime_ns == first


ROWS = [
    (1, "a", "x1", 1.5, "2026-01-01"), (2, "a", None, 2.5, "2026-01-02"), (3, None, "y", None, None),
    (4, "c", "x22", 9.0, "2025-01-01"), (None, "c", "x3", 3.0, "2026-03-01"),
]  # fmt: skip
SAID = [
    ("expect_column_values_to_not_be_null", {"column": "id"}),
    ("expect_column_values_to_be_null", {"column": "code"}),
    ("expect_column_values_to_be_in_set", {"column": "name", "value_set": ["a", "b"]}),
    ("expect_column_values_to_not_be_in_set", {"column": "name", "value_set": ["c"]}),
    (
        "expect_column_values_to_be_between",
        {"column": "price", "min_value": 2, "max_value": 9, "strict_max": True},
    ),
    ("expect_column_values_to_match_regex", {"column": "code", "regex": "^x"}),
    ("expect_column_values_to_not_match_regex", {"column": "code", "regex": "2$"}),
    ("expect_column_value_lengths_to_be_between", {"column": "code", "min_value": 2, "max_value": 2}),
    ("expect_column_value_lengths_to_equal", {"column": "code", "value": 2}),
    (
        "expect_column_pair_values_a_to_be_greater_than_b",
        {"column_A": "price", "column_B": "id", "or_equal": True},
    ),
    ("expect_column_values_to_be_unique", {"column": "name"}),
    ("expect_column_values_to_be_unique", {"column": "code"}),
    ("expect_compound_columns_to_be_unique", {"column_list": ["id", "name"]}),
    ("expect_column_min_to_be_between", {"column": "price", "min_value": 2}),
    ("expect_column_max_to_be_between", {"column": "price", "max_value": 9}),
    ("expect_column_mean_to_be_between", {"column": "price", "min_value": 4, "max_value": 4}),
    ("expect_column_sum_to_be_between", {"column": "price", "min_value": 16, "strict_min": True}),
    ("expect_table_row_count_to_be_between", {"min_value": 6}),
    ("expect_table_row_count_to_equal", {"value": 5}),
]


def test_one_aggregation_answers_as_great_expectations_does(mended: Mended) -> None:
    project, _ = mended
    spark = project.frame("shop.corrected.current").sparkSession
    frame = spark.createDataFrame(ROWS, "id int, name string, code string, price double, day string")
    asked = [ExpectationConfig.model_validate({"type": kind} | kwargs) for kind, kwargs in SAID]
    ours, theirs = answer(asked, frame), answer_by_engine(asked, frame)
    assert [(r.expectation.title, r.success) for r in ours] == [
        (r.expectation.title, r.success) for r in theirs
    ]
    counted = [(o, t) for o, t in zip(ours, theirs, strict=True) if t.unexpected is not None]
    assert len(counted) == 13
    assert [o.unexpected for o, _ in counted] == [t.unexpected for _, t in counted]
    days = ExpectationConfig(type="expect_column_values_to_be_between", column="day", min_value="2026-01-02")
    (judged,) = answer([days], frame.withColumn("day", frame["day"].cast("date")))
    assert (judged.elements, judged.unexpected) == (4, 2)


def test_a_validator_sets_failing_rows_aside(mended: Mended) -> None:
    project, _ = mended
    rules = [
        {"type": "expect_column_values_to_not_be_null", "column": "id"},
        {"type": UNIQUE["type"], "column": "name"},
    ]
    validator = {"class": "kedro_lakehouse.datasets.ExpectationsValidator", "on": "save"}
    entry = {"type": "MemoryDataset", "copy_mode": "assign"}
    project.write(
        "catalog_orders",
        {
            "kept": entry
            | {"validator": validator | {"options": {"expectations": rules, "quarantine": "shop.bad"}}},
            "refused": entry | {"validator": validator | {"options": {"expectations": rules}}},
        },
    )
    bootstrap_project(project.path)
    with KedroSession.create(project_path=project.path) as session:
        catalog = session.load_context().catalog
        spark = catalog.load("shop.corrected.current").sparkSession
        frame = spark.createDataFrame(ROWS, "id int, name string, code string, price double, day string")
        for _ in range(2):
            catalog.save("kept", frame)
        assert [r["id"] for r in catalog.load("kept").collect()] == [3]
        with pytest.raises(DataValidationError) as caught:
            catalog.save("refused", frame)
    assert [f.failure_count for f in caught.value.failures] == [1, 4]
    bad = project.rows("shop.bad")
    assert sorted(len(r["_reasons"]) for r in bad) == [1, 1, 1, 2]
    assert all(json.loads(r["_raw"])["name"] in ("a", "c") for r in bad)
