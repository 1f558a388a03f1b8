"""The runner reads every shape that a case may have, and refuses what it does not know."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from model.values import MapValue

from conformance.by_model import run_events, run_snapshots
from conformance.cases import judge, judge_snapshots, snapshot_case, table_cases
from conformance.lots import pack
from conformance.reading import check_keys, options_of
from conformance.typed import arrow_type, type_of, typed

pytestmark = pytest.mark.unit


def up(seq: Any, **row: Any) -> dict[str, Any]:
    return {"op": "upsert", "seq": seq, "row": row}


def events_case(batches: list[list[Any]], expect: dict[str, Any], **config: Any) -> dict[str, Any]:
    return {
        "id": "x", "kind": "events", "config": {"keys": ["id"]} | config, "batches": batches,
        "expect": expect,
    }  # fmt: skip


@pytest.mark.parametrize(
    "case",
    [
        events_case([], {}) | {"colour": "red"},
        events_case([[up(1, id=1) | {"lag": 3}]], {}),
        events_case([[up(1, id=1)]], {}, on_full_moon="ignore"),
        events_case([[up(1, id=1, w=3)]], {}, columns=["id"]),
        events_case([[up(1, id=1)]], {"scd3": []}),
        events_case([[up(1, id=1)]], {"metrics": {"moons": 1}}),
        events_case([[up(1, id=1)]], {"quarantine": [{"reason": "null_key", "n": 0, "why": "?"}]}),
    ],
)
def test_what_nobody_would_look_at_is_refused(case: dict[str, Any]) -> None:
    with pytest.raises(AssertionError, match="does not know"):
        [judge(t, run_events(t)) for t in table_cases(case)]


def test_unknown_values_are_refused() -> None:
    with pytest.raises(AssertionError, match="valid_from"):
        options_of({"keys": ["id"], "valid_from": "yesterday"}, "x")
    with pytest.raises(AssertionError, match="does not know"):
        check_keys(events_case([], {}) | {"kind": "asof"})


def test_types_hold_all_values_of_a_column() -> None:
    assert type_of([1, None, 2.5]) == "double"
    assert type_of([None]) == "string"
    assert type_of([2**70, 1]) == "decimal(38,0)"
    assert type_of(["2026-01-01T00:00:00Z"]) == "string"
    assert type_of(["2026-01-01T00:00:00Z"], instants=True) == "timestamp"
    assert type_of([{"a": 1}, {"a": None, "b": ["x"]}]) == "struct<a:bigint,b:array<string>>"
    assert arrow_type("struct<aB: int, m: map<string,decimal(10,2)>>") == pa.struct(
        [("aB", pa.int32()), ("m", pa.map_(pa.string(), pa.decimal128(10, 2)))]
    )
    assert typed({"b": "1.50", "m": {"k": 1}}, "struct<b:decimal(3,2),m:map<string,bigint>>") == {
        "b": Decimal("1.50"), "m": MapValue({"k": 1}),
    }  # fmt: skip
    assert typed("2026-01-01", "timestamp") == dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def test_a_marker_in_a_column_that_is_no_text_keeps_the_columns_type() -> None:
    batches = [[up(1, id=1, n=5)], [up(2, id=1, n="?")]]
    (case,) = table_cases(events_case(batches, {"scd1": [{"id": 1, "n": 5}]}, unset_marker="?"))
    assert judge(case, run_events(case)) == []
    (lot,) = pack([case])
    assert lot.declaration(0)["types"] == {"n": "bigint"}
    assert lot.schema(1)["n"] == pa.string()
    assert [r["n"] for r in [*lot.rows(0), *lot.rows(1)]] == ["5", "?"]


def test_a_struct_may_get_a_field_without_a_new_version() -> None:
    steps = [
        {"columns": ["id", "s"], "types": {"s": "struct<a:int>"}, "events": [up(1, id=1, s={"a": 1})]},
        {"columns": ["id", "s"], "types": {"s": "struct<a:int,b:int>"}, "events": [up(2, id=1, s={"a": 1})]},
    ]
    expect = {"scd2": [{"id": 1, "s": {"a": 1, "b": None}, "_from": 1, "_to": None}]}
    case = {"id": "x", "kind": "schema", "config": {"keys": ["id"]}, "steps": steps, "expect": expect}
    (table,) = table_cases(case)
    assert judge(table, run_events(table)) == []


def test_a_tie_may_fail_the_batch() -> None:
    batches = [[up(1, id=1, v="a")], [up(1, id=1, v="b"), up(2, id=2, v="c")]]
    expect = {"scd1": [{"id": 1, "v": "a"}], "error": "SEQUENCE_TIE"}
    (case,) = table_cases(events_case(batches, expect, on_tie="fail"))
    assert judge(case, run_events(case)) == []


def extracts_case(
    snapshots: list[tuple[str, list[Any]]], expect: dict[str, Any], **config: Any
) -> dict[str, Any]:
    return {
        "id": "x", "kind": "snapshots", "config": {"keys": ["id"], "columns": ["id", "r", "v"]} | config,
        "snapshots": [{"at": at, "rows": rows} for at, rows in snapshots], "expect": expect,
    }  # fmt: skip


def test_extracts_delete_within_their_scope_only() -> None:
    first = [{"id": 1, "r": "eu", "v": 1}, {"id": 2, "r": "eu", "v": 1}, {"id": 3, "r": "us", "v": 1}]
    case = extracts_case(
        [("2026-01-01", first), ("2026-01-02", first[:1])],
        {"scd1": [first[0], first[2]]},
        delete_scope="r",
    )
    table = snapshot_case(case)
    assert judge_snapshots(table, run_snapshots(table)) == []


def test_guards_and_first_starts_of_extracts() -> None:
    rows = [{"id": i, "r": "eu", "v": 1} for i in range(4)]
    case = extracts_case(
        [("2026-01-02", rows), ("2026-01-03", rows[:1]), ("2026-01-01", rows), ("2026-01-04", rows[:3])],
        {
            "scd2": [
                {"id": i, "_from": "1970-01-01", "_to": "2026-01-04" if i == 3 else None} for i in range(4)
            ]
        },
        max_delete_fraction=0.5, initial_valid_from="epoch", expect_error="SNAPSHOT_OUT_OF_ORDER",
    )  # fmt: skip
    table = snapshot_case(case)
    found = run_snapshots(table)
    assert judge_snapshots(table, found) == []
    assert found.errors == ["SNAPSHOT_DELETES_TOO_MANY", "SNAPSHOT_OUT_OF_ORDER"]
