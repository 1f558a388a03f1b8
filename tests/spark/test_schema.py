"""Files whose columns change: nested fields too, in both directions, and what is refused before any write."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from harness.project import Outcome, TemporaryProject, write_parquet
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.compare import comparable
from kedro_lakehouse.changes.contract import TableContract
from kedro_lakehouse.changes.keys import split_key_changes
from kedro_lakehouse.changes.validate import check_events, convert, split_reasons
from kedro_lakehouse.decoders.records import Columns
from kedro_lakehouse.errors import ConfigurationError
from kedro_lakehouse.names import TableName
from kedro_lakehouse.sources.files import LandedFile, shapes
from kedro_lakehouse.sources.read import read_groups

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

SOURCES: dict[str, Any] = {
    "shop": {
        "type": "dms", "path": "${globals:landing}", "sequence_column": "seq", "timestamp_column": "ts",
        "max_files": 1,
    },
}  # fmt: skip
TABLES: dict[str, dict[str, Any]] = {
    "shop.nested": {"history": True},
    "shop.mapped": {},
    "shop.to_text": {},
    "shop.to_time": {},
    "shop.inside": {},
    "shop.cased": {},
    "shop.fixed": {"schema_policy": "fixed"},
    "shop.fixed_inside": {"schema_policy": "fixed"},
    "shop.fixed_same": {"schema_policy": "fixed"},
    "shop.uncastable": {"types": {"v": "date"}},
}
BASE = {"Op": pa.string(), "id": pa.int64(), "seq": pa.string(), "ts": pa.timestamp("us")}
DAY = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - zone-less, as DMS writes it


def land(project: TemporaryProject, table: str, number: int, kinds: dict[str, Any], *rows: dict[str, Any]):
    facts = [
        {"Op": "I", "seq": str(number * 10 + i), "ts": DAY + dt.timedelta(days=number, seconds=i)} | row
        for i, row in enumerate(rows)
    ]
    path = project.landing / table / f"2026010{number}-000000000.parquet"
    write_parquet(path, facts, BASE | kinds)


def struct(**fields: pa.DataType) -> pa.DataType:
    return pa.struct(list(fields.items()))


OLD = {
    "place": struct(zip=pa.int32(), city=pa.string()),
    "lines": pa.list_(struct(sku=pa.string(), qty=pa.int32())),
}
OLD_MAP = {"marks": pa.map_(pa.string(), struct(n=pa.float32()))}
NEW_MAP = {"marks": pa.map_(pa.string(), struct(n=pa.float64(), m=pa.int32()))}
NEW = {
    "place": struct(street=pa.string(), zip=pa.int64()),
    "lines": pa.list_(struct(note=pa.string(), qty=pa.int64(), sku=pa.string())),
}
ONE = {
    "place": {"zip": 1, "city": "c"},
    "lines": [{"sku": "s", "qty": 1}, None],
    "marks": [("k", {"n": 0.5})],
}
NONE = {"place": None, "lines": None}
WIDE = {
    "place": {"street": "r", "zip": 2**40}, "lines": [{"note": "x", "qty": 2**41, "sku": "t"}],
}  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    tables = {name: {"source": "shop", "keys": ["id"]} | table for name, table in TABLES.items()}
    return TemporaryProject.make(tmp_path_factory.mktemp("schema") / "project", SOURCES, tables)


@pytest.fixture(scope="module")
def first(project: TemporaryProject) -> Outcome:
    land(project, "nested", 1, OLD, {"id": 1} | ONE, {"id": 2} | ONE, {"id": 3} | NONE)
    land(project, "mapped", 1, OLD_MAP, {"id": 1, "marks": [("k", {"n": 0.5})]}, {"id": 2, "marks": None})
    new = [("k", {"n": 1e300, "m": 7}), ("none", None)]
    land(project, "mapped", 2, NEW_MAP, {"id": 3, "marks": new})
    for table, kind, value in (
        ("to_text", pa.int64(), 1), ("to_time", pa.date32(), dt.date(2026, 1, 1)),
        ("inside", pa.list_(struct(x=pa.int32())), [{"x": 1}]), ("cased", struct(x=pa.int32()), {"x": 1}),
        ("fixed", pa.int32(), 1), ("fixed_inside", struct(x=pa.int32()), {"x": 1}),
        ("fixed_same", pa.int64(), 1),
    ):  # fmt: skip
        land(project, table, 1, {"v": kind}, {"id": 1, "v": value})
    land(project, "uncastable", 1, {"v": pa.binary()}, {"id": 1, "v": b"x"})
    return project.attempt()


@pytest.fixture(scope="module")
def second(project: TemporaryProject, first: Outcome) -> Outcome:
    # Key 1 changes in the new shape; then a late file has the old shape again.
    land(project, "nested", 3, NEW, {"id": 1} | WIDE)
    land(project, "nested", 2, OLD, {"id": 4} | ONE)
    for table, kind, value in (
        ("to_text", pa.string(), "one"), ("to_time", pa.timestamp("us"), DAY),
        ("inside", pa.list_(struct(x=pa.string())), [{"x": "one"}]),
        ("cased", struct(X=pa.int32()), {"X": 1}),
        ("fixed", pa.int64(), 2**40), ("fixed_inside", struct(x=pa.int32(), y=pa.int32()), {"x": 1, "y": 1}),
        ("fixed_same", pa.int32(), 2),
    ):  # fmt: skip
        land(project, table, 2, {"v": kind}, {"id": 2, "v": value})
    return project.attempt()


def spark_rows(project: TemporaryProject, table: str) -> list[dict[str, Any]]:
    """A current table as Spark reads it: pyiceberg gives an empty list for a null one in older files."""
    return [r.asDict(recursive=True) for r in project.frame(f"shop.{table}.current").collect()]


def test_old_rows_get_null_fields_and_no_version(project, second):
    versions = [r for r in project.rows("shop.nested_history") if r["id"] in (2, 3)]
    assert sorted(r["id"] for r in versions) == [2, 3]
    (two,) = (r for r in versions if r["id"] == 2)
    assert two["place"] == {"zip": 1, "city": "c", "street": None}
    assert two["lines"] == [{"sku": "s", "qty": 1, "note": None}, None]
    assert project.rows("shop.nested_history", "id").count({"id": 1}) == 2


def test_a_dropped_field_stays_and_is_null_from_then_on(project, second):
    (one,) = (r for r in project.rows("shop.nested") if r["id"] == 1)
    assert one["place"] == {"zip": 2**40, "city": None, "street": "r"}
    assert one["lines"] == [{"sku": "t", "qty": 2**41, "note": "x"}]


def test_values_of_maps_take_on_fields_too(project, first):
    assert {r["id"]: r["marks"] for r in spark_rows(project, "mapped")} == {
        1: {"k": {"n": 0.5, "m": None}},
        2: None,
        3: {"k": {"n": 1e300, "m": 7}, "none": None},
    }


def test_the_order_of_a_maps_entries_does_not_matter(session):
    maps = session.sql("select map('a', 1, 'b', 2) as one, map('b', 2, 'a', 1) as other")
    one, other = (comparable(F.col(f.name), f.dataType) for f in maps.schema.fields)
    assert maps.select(one == other).first()[0]


def test_maps_are_compared_by_their_entries_at_any_depth(session):
    schema = "n int, v struct<m: map<string, struct<l: array<map<int, int>>>>>"
    one, other = {"a": ([{1: 1, 2: None}],), "b": None}, {"b": None, "a": ([{2: None, 1: 1}],)}
    rows = [(0, (one,)), (1, (other,)), (2, ({"a": ([{1: 1, 2: 2}],), "b": None},)), (3, (None,)), (4, None)]
    frame = session.createDataFrame(rows, schema)
    shown = frame.select("n", comparable(F.col("v"), frame.schema["v"].dataType).alias("c"))
    pairs = shown.alias("x").join(shown.alias("y"), F.expr("x.c <=> y.c AND x.n < y.n"))
    assert [tuple(r) for r in pairs.select("x.n", "y.n").collect()] == [(0, 1)]


def test_a_file_of_the_old_shape_still_loads(project, second):
    (four,) = (r for r in project.rows("shop.nested") if r["id"] == 4)
    assert four["place"] == {"zip": 1, "city": "c", "street": None}
    (three,) = (r for r in spark_rows(project, "nested") if r["id"] == 3)
    assert (three["place"], three["lines"]) == (None, None)
    assert project.rows("shop.nested_quarantine") == []


@pytest.mark.parametrize(
    ("table", "code", "words"),
    [
        ("to_text", "INCOMPATIBLE_TYPE", ["column v:", "bigint", "string", "20260102-000000000.parquet"]),
        ("to_time", "INCOMPATIBLE_TYPE", ["column v:", "date", "timestamp_ntz", "Iceberg cannot"]),
        ("inside", "INCOMPATIBLE_TYPE", ["column v.element.x:", "int", "string"]),
        ("cased", "UNSUPPORTED", ["v.x", "v.X", "case"]),
        ("fixed", "SCHEMA_FIXED", ["widen: v.", "20260102-000000000.parquet"]),
        ("fixed_inside", "SCHEMA_FIXED", ["widen: v.y."]),
    ],
)
def test_what_cannot_be_is_refused_before_any_write(project, second, table, code, words):
    error = second.failed[f"shop.{table}"]
    assert error.code == code
    assert [w for w in words if w not in str(error)] == []
    assert project.state(f"shop.{table}_changes").batch == 1
    assert len(project.rows(f"shop.{table}")) == 1


def test_a_declared_type_that_no_cast_leads_to_is_refused(project, first):
    assert first.failed["shop.uncastable"].code == "INCOMPATIBLE_TYPE"
    assert list(first.failed) == ["shop.uncastable"]


def test_a_narrower_file_fits_a_fixed_table(project, second):
    assert sorted(r["v"] for r in project.rows("shop.fixed_same")) == [1, 2]


@pytest.fixture(scope="module")
def session(project: TemporaryProject, first: Outcome) -> SparkSession:
    return project._project.session


def converted(
    session: SparkSession, schema: str, rows: Sequence[Any], wanted: str, **options: Any
) -> list[dict[str, Any]]:
    frame = session.createDataFrame(rows, schema)
    types = {f.name: f.dataType for f in T._parse_datatype_string(wanted).fields}  # type: ignore[attr-defined]
    columns = Columns(types=types, **options)
    kinds = {f.name: f.dataType for f in frame.schema.fields}
    done = convert(frame, columns.conversions(kinds), keep=[])
    expected = {c: t.simpleString() for c, t in types.items() if c in done.columns}
    assert {f.name: f.dataType.simpleString() for f in done.schema.fields if f.name in types} == expected
    return [r.asDict(recursive=True) for r in done.collect()]


def test_a_part_that_cannot_be_read_fails_its_column_and_no_other(session):
    found = converted(
        session,
        "a struct<x: string, y: string>, b array<string>, c map<string, string>, d string, e bigint",
        [
            (("1", "q"), ["1", None], {"k": "1"}, "1", 1),
            (("x", "q"), ["1", "x"], {"k": "x"}, "x", 2**40),
            (None, None, None, None, None),
            ((None, None), [None], {"k": None}, None, None),
        ],
        "a struct<y: string, x: int>, b array<int>, c map<string, int>, d int, e int",
    )
    assert [r.pop("__failed") for r in found] == [[], ["a", "b", "c", "d", "e"], [], []]
    assert found[0] == {"a": {"y": "q", "x": 1}, "b": [1, None], "c": {"k": 1}, "d": 1, "e": 1}
    assert found[2] == dict.fromkeys("abcde")
    assert found[3] == {"a": {"y": None, "x": None}, "b": [None], "c": {"k": None}, "d": None, "e": None}


def test_names_of_any_kind_are_taken_literally(session):
    found = converted(
        session,
        "`a.b` struct<`x y`: int, `it's`: int>",
        [((1, 2),)],
        "`a.b` struct<`x y`: bigint, `it's`: int>",
    )
    assert found == [{"a.b": {"x y": 1, "it's": 2}, "__failed": []}]


def test_text_of_structs_and_structs_of_text_keep_what_they_say(session):
    rows = [((1,), '{"x": 2}'), ((None,), "{}"), (None, "no JSON")]
    found = converted(session, "a struct<x: int>, b string", rows, "a string, b struct<x: int>")
    assert found == [
        {"a": '{"x":1}', "b": {"x": 2}, "__failed": []},
        {"a": "{}", "b": {"x": None}, "__failed": []},
        {"a": None, "b": None, "__failed": ["b"]},
    ]


def test_a_marked_value_was_not_sent_whatever_its_type(session):
    found = converted(
        session,
        "id string, n string, day string, old string, new string, m bigint",
        [
            ("1", "?", "?", "?", "v", 1),
            ("2", "x", "02.01.2026", None, "?", 2),
            ("3", None, None, "w", "?", None),
            ("?", "4", None, None, None, None),
        ],
        "id bigint, n int, day date, name string, m bigint",
        rename={"old": "name", "new": "name"}, unset_marker="?", date_format="dd.MM.yyyy",
    )  # fmt: skip
    assert [r["_unset"] for r in found] == [["day", "n", "name"], ["name"], None, ["id"]]
    assert [r["__failed"] for r in found] == [[], ["n"], [], []]
    assert [r["name"] for r in found] == [None, None, "w", None]
    assert [r["id"] for r in found] == [1, 2, 3, None]
    assert found[1]["day"] == dt.date(2026, 1, 2)


def test_without_a_marker_nothing_is_unset(session):
    assert "_unset" not in converted(session, "a string", [("?",)], "a string")[0]


EVENT = (
    "id bigint, v string, _op string, _order struct<n: bigint>, _time timestamp_ntz, _unset array<string>, "
    "__failed array<string>, __malformed boolean, __key_mismatch boolean, __before struct<id: bigint>"
)
CONTRACT = TableContract(table="a.b", keys=("id",), checks={"short": "length(v) < 3"})
HORIZON = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def checked(session: SparkSession, *events: dict[str, Any], contract: TableContract = CONTRACT) -> DataFrame:
    whole = [
        {"id": 1, "v": None, "_op": "upsert", "_order": (1,), "_time": DAY, "_unset": None, "__failed": [],
         "__malformed": False, "__key_mismatch": False, "__before": None} | e
        for e in events
    ]  # fmt: skip
    return check_events(session.createDataFrame(whole, EVENT), contract, horizon=HORIZON)


def test_reasons_come_in_the_contracts_order(session):
    before = DAY - dt.timedelta(microseconds=1)
    found = checked(
        session,
        {"_time": before, "__key_mismatch": True, "v": "long"},
        {"_time": before, "id": None, "__failed": ["v"]},
        {"_time": DAY},
        {"_time": None},
        {"_op": "truncate", "id": None, "_time": before},
    )
    reasons, concerned = split_reasons()
    assert [tuple(row) for row in found.select(reasons, concerned).collect()] == [
        (["key_mismatch", "too_late", "short"], []),
        (["null_key", "incompatible_type", "too_late"], ["id", "v"]),
        ([], []),
        ([], []),
        (["too_late"], []),
    ]


def test_a_check_of_a_column_that_no_record_has_had_yet_sees_null(session):
    named = replace(CONTRACT, checks={"is_mail": "`e mail` like '%@%'", "known": "plan is not null or w > 1"})
    found = checked(session, {"v": "x"}, contract=named)
    assert [r["_reasons"] for r in found.collect()] == [[]]
    assert not {"e mail", "plan", "w"} & set(found.columns)
    strict = replace(CONTRACT, checks={"has_plan": "plan is not null"})
    assert [r["_reasons"] for r in checked(session, {"v": "x"}, contract=strict).collect()] == [["has_plan"]]


@pytest.mark.parametrize(
    ("sql", "said"),
    [("lenght(v) < 3", "lenght"), ("v <", "syntax error"), ("_order.m > 1", "m"), ("v + 1", "boolean")],
)
def test_a_check_that_is_no_condition_is_named_with_what_spark_says(session, sql, said):
    both = {"right": "w > 1 or v is null", "wrong": sql}
    with pytest.raises(
        ConfigurationError, match=r"tables\.yml: 'a\.b\.checks\.wrong': Spark refuses"
    ) as caught:
        checked(session, {"v": "x"}, contract=replace(CONTRACT, checks=both))
    assert said in caught.value.problem.lower()


def test_only_upserts_leave_values_unset(session):
    events = checked(
        session,
        {"_unset": ["v"]},
        {"_unset": ["v"], "_op": "delete"},
        {"_unset": ["v"], "__before": (2,)},
    )
    split = split_key_changes(events, CONTRACT, "__before")
    assert [(r["id"], r["_op"], r["_unset"]) for r in split.collect()] == [
        (1, "upsert", ["v"]),
        (1, "delete", None),
        (2, "delete", None),
        (1, "upsert", ["v"]),
    ]


COUNTS = [0, 1, 999, 1000, -1, -1000, -1001, 1_767_225_600_123_456_789, 2**63 - 1, 1 - 2**63, None]


@pytest.mark.parametrize("zone", [None, "UTC"])
def test_times_in_nanoseconds_are_cut_to_microseconds(
    session: SparkSession, tmp_path: Path, zone: str | None
) -> None:
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"odd `at`": pa.array(COUNTS, pa.timestamp("ns", zone))}), file)
    landed = LandedFile(f"file://{file}", 1, 1)
    reading: dict[str, Any] = {"file_format": "parquet", "headers": {}, "options": {}}
    found_shapes = shapes([(landed, "changes")], table=TableName("shop", "fine"), fallback={}, **reading)
    (group,) = read_groups(session, found_shapes, **reading)
    kind = T.TimestampType() if zone else T.TimestampNTZType()
    assert group.records.schema["odd `at`"].dataType == kind
    rows = group.records.select(F.col("`odd ``at```").cast("timestamp").alias("at"))
    found = rows.select(F.unix_micros("at")).collect()
    assert [r[0] for r in found] == [None if count is None else count // 1000 for count in COUNTS]
