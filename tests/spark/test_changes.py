"""Change-only files: upserts ordered by declared columns, operations by a mapping, absent keys stay."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from harness.project import TemporaryProject, write_text

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

SOURCE: dict[str, Any] = {"type": "changes", "path": "${globals:landing}/in", "file_format": "csv"}
SOURCES = {
    "plain": SOURCE | {"pattern": "*.csv"},
    "marked": SOURCE | {"op_column": "status"},
    "mapped": SOURCE | {"op_column": "status", "op_mapping": {"new": "upsert", "gone": "delete"}},
    "appended": SOURCE | {"op_column": "status"},
}
TYPES = {"id": "int", "at": "timestamp_ntz", "n": "int"}
TABLES: dict[str, Any] = {
    "plain.customer": {"order_by": ["at"], "types": TYPES},
    "plain.hidden": {"order_by": ["at", "n"], "types": TYPES, "columns": {"include": ["name"]}},
    "plain.dated": {
        "order_by": ["n"],
        "effective_time": "at",
        "types": TYPES,
        "columns": {"exclude": ["at"]},
    },
    "marked.stock": {"order_by": ["n"], "types": TYPES},
    "mapped.stock2": {"order_by": ["n"], "types": TYPES},
    "appended.log": {"keys": [], "write": "append", "types": {"id": "int"}},
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    tables = {n: {"source": n.split(".")[0], "keys": ["id"]} | t for n, t in TABLES.items()}
    made = TemporaryProject.make(tmp_path_factory.mktemp("changes") / "p", SOURCES, tables)
    land(made.landing / "in")
    made.run("ingestion")
    return made


def land(folder: Path) -> None:
    rows = "id,name,at,n\n1,a,2026-01-01 00:00:01,1\n1,b,2026-01-01 00:00:03,\n2,c,2026-01-01 00:00:02,2\n"
    later = "id,name,at,n\n1,late,2026-01-01 00:00:02,9\n3,d,,3\n"
    for table in ("customer", "hidden", "dated"):
        write_text(folder / table / "2_incr.csv", later)
        write_text(folder / table / "1_full.csv", rows)
    ops = "id,name,n,status\n1,a,1,I\n2,b,2,insert\n3,c,3,r\n1,gone,4,D\n2,kept,5,U\n,,6,T\n4,d,7,x\n5,e,8,\n"
    write_text(folder / "stock" / "a.csv", ops)
    write_text(folder / "stock2" / "a.csv", "id,name,n,status\n1,a,1,new\n1,a,2,gone\n2,b,3,I\n")
    write_text(folder / "log" / "a.csv", "id,status\n1,I\n1,I\n2,D\n3,T\n")


def events(project: TemporaryProject, table: str) -> list[tuple[Any, ...]]:
    rows = project.rows(f"{table}_changes")
    found = [(r["_op"], r.get("id"), r.get("name"), *r["_order"].values()) for r in rows]
    return sorted(found, key=str)


def quarantined(project: TemporaryProject, table: str) -> list[tuple[int, list[str]]]:
    return sorted((r["_position"]["row"], r["_reasons"]) for r in project.rows(f"{table}_quarantine"))


def stamp(second: int) -> Any:
    import datetime as dt

    return dt.datetime(2026, 1, 1, 0, 0, second)  # noqa: DTZ001


def test_every_row_is_an_upsert_ordered_by_the_declared_column(project):
    assert events(project, "plain.customer") == [
        ("upsert", 1, "a", stamp(1)), ("upsert", 1, "b", stamp(3)), ("upsert", 1, "late", stamp(2)),
        ("upsert", 2, "c", stamp(2)),
    ]  # fmt: skip
    assert quarantined(project, "plain.customer") == [(2, ["null_sequence"])]
    assert {(r["_time"], r["_order"]["at"]) for r in project.rows("plain.customer_changes")} == {
        (stamp(i), stamp(i)) for i in (1, 2, 3)
    }


def test_order_columns_that_are_not_kept_order_all_the_same(project):
    rows = project.rows("plain.hidden_changes")
    assert {c for c in rows[0] if not c.startswith("_")} == {"id", "name"}
    assert events(project, "plain.hidden") == [
        ("upsert", 1, "a", stamp(1), 1), ("upsert", 1, "b", stamp(3), None),
        ("upsert", 1, "late", stamp(2), 9), ("upsert", 2, "c", stamp(2), 2),
    ]  # fmt: skip


def test_effective_time_may_be_another_column_than_the_order(project):
    rows = sorted(project.rows("plain.dated_changes"), key=lambda r: r["_order"]["n"])
    assert [(r["_order"]["n"], r["_time"]) for r in rows] == [
        (1, stamp(1)), (2, stamp(2)), (3, None), (9, stamp(2)),
    ]  # fmt: skip
    assert "at" not in rows[0]


def test_an_operation_column_deletes_and_truncates_and_keeps_out(project):
    assert events(project, "marked.stock") == [
        ("delete", 1, None, 4), ("truncate", None, None, 6), ("upsert", 1, "a", 1), ("upsert", 2, "b", 2),
        ("upsert", 2, "kept", 5), ("upsert", 3, "c", 3),
    ]  # fmt: skip
    assert quarantined(project, "marked.stock") == [(7, ["unknown_op"]), (8, ["unknown_op"])]
    assert "status" not in project.rows("marked.stock_changes")[0]


def test_a_declared_mapping_replaces_the_default(project):
    assert events(project, "mapped.stock2") == [("delete", 1, None, 2), ("upsert", 1, "a", 1)]
    assert quarantined(project, "mapped.stock2") == [(3, ["unknown_op"])]


def test_without_keys_rows_are_ordered_by_place_and_cannot_be_deleted(project):
    rows = project.rows("appended.log_changes")
    assert sorted((r["id"], *r["_order"].values(), r["_time"]) for r in rows) == [
        (1, "a.csv", 1, "a.csv"), (1, "a.csv", 2, "a.csv"),
    ]  # fmt: skip
    assert quarantined(project, "appended.log") == [(3, ["unknown_op"]), (4, ["unknown_op"])]
