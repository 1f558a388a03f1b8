"""Debezium messages: envelopes with and without schema, flattened rows, orders, keys and types."""

from __future__ import annotations

import datetime as dt
import json
from typing import TYPE_CHECKING, Any

import pytest
from harness.fixtures import land
from harness.project import TemporaryProject, write_text

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

HERE: dict[str, Any] = {"type": "debezium", "path": "${globals:landing}/in"}
SOURCES = {"pg": HERE, "my": HERE, "all": HERE | {"path": "${globals:landing}/all", "shared": True}}
TIMED = {"order_by": ["at"], "rename": {"__source_ts_ms": "at"}, "types": {"at": "bigint"}}
TABLES: dict[str, Any] = {
    "pg.cases": {"types": {"id": "int"}},
    "pg.keyless": {"types": {"id": "int"}},
    "pg.flat": {"types": {"id": "int"}},
    "pg.moved": {},
    "my.product": TIMED | {"types": TIMED["types"] | {"id": "int", "weight": "double"}},
    "my.evolved": TIMED,
    "all.t1": {"entity": "t1"} | TIMED,
    "all.t2": {"entity": "test/t2"} | TIMED,
    "my.unordered": {},
}
PG = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "t", "txId": 7, "ts_ms": 1000}


def source(lsn: int, **more: Any) -> dict[str, Any]:
    return PG | {"lsn": lsn} | more


def message(op: str, lsn: int, after: Any = None, before: Any = None, key: Any = None) -> str:
    value = {"op": op, "before": before, "after": after, "source": source(lsn), "ts_ms": 2000}
    return json.dumps({"key": key, "value": value} if key is not None else value)


def with_schema(fields: list[dict[str, Any]], row: dict[str, Any], lsn: int, op: str = "c") -> str:
    block = {"type": "struct", "optional": True, "fields": fields}
    schema = {"type": "struct", "fields": [block | {"field": "before"}, block | {"field": "after"}]}
    payload = {"op": op, "before": None, "after": row, "source": source(lsn), "ts_ms": 2000}
    return json.dumps({"schema": schema, "payload": payload})


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    tables = {n: {"source": n.split(".")[0], "keys": ["id"]} | t for n, t in TABLES.items()}
    made = TemporaryProject.make(tmp_path_factory.mktemp("debezium") / "p", SOURCES, tables)
    land_everything(made.landing)
    made.failed = made.failures("ingestion", "cdc_merge")  # type: ignore[attr-defined]
    return made


def land_everything(landing: Path) -> None:
    folder = landing / "in"
    cases = [
        message("r", 90, {"id": 1, "v": "s"}, key={"id": 1}),
        message("u", 100, {"id": 1, "v": "a"}, {"id": 1, "v": "s"}, {"schema": {}, "payload": {"id": 1}}),
        message("d", 110, None, {"id": 1, "v": "a"}, {"id": 1}),
        message("t", 120), message("c", 130, {"id": 2, "v": "x"}, key={"id": 3}),
        message("x", 140, {"id": 2, "v": "x"}), '{"key": {"id": 1}, "value": null}',
        '{"ts_ms": 1565787098802}', '{"schema": {"type": "struct", "fields": []}, "payload": {"ts_ms": 1}}',
        '{"status": "BEGIN", "id": "571:1", "event_count": null, "data_collections": null, "ts_ms": 1}',
        json.dumps({"source": source(150), "databaseName": "shop", "ddl": "create table t(id int)"}),
        "no json", message("c", 160, {"id": "x", "v": "y"}),
    ]  # fmt: skip
    write_text(folder / "cases/1.json", "\n".join(cases))
    write_text(folder / "keyless/1.json", message("d", 100, key={"id": 1}))
    flat = [
        {"id": 1, "v": "a", "__op": "c", "__lsn": 10, "__source_ts_ms": 1000, "__deleted": "false"},
        {"id": 2, "v": "b", "__deleted": "false", "__lsn": 20},
        {"id": 1, "v": None, "__op": "d", "__lsn": 30, "__deleted": "true"}, {"id": 3, "v": "c", "__lsn": 40},
    ]  # fmt: skip
    write_text(folder / "flat/1.json", "\n".join(map(json.dumps, flat)))
    write_text(
        folder / "moved/1.json",
        message("c", 1, {"id": "a", "v": "1"}) + "\n" + message("u", 2, {"id": "b", "v": "2"}, {"id": "a"}),
    )
    write_text(
        folder / "unordered/1.json",
        json.dumps({"op": "c", "after": {"id": 1}, "source": {"connector": "mongodb"}}),
    )
    for i in (1, 2, 3):
        land(f"paimon/debezium/table/schemaevolution/debezium-data-{i}.txt", folder / f"product/{i}.json")
    for i in (1, 2, 3):
        land(
            f"paimon/debezium/table/schema/schemaevolution/debezium-data-{i}.txt",
            folder / f"evolved/{i}.json",
        )
    for topic in (0, 1):
        for i in (1, 2):
            name = f"paimon/debezium/database/schemaevolution/topic{topic}/debezium-data-{i}.txt"
            land(name, landing / "all" / f"{i}-{topic}.json")


def events(project: TemporaryProject, table: str, *columns: str) -> list[tuple[Any, ...]]:
    found = [
        (r["_op"], *r["_order"].values(), *(r[c] for c in columns)) for r in project.rows(f"{table}_changes")
    ]
    return sorted(found, key=lambda e: (e[1], str(e)))


def reasons(project: TemporaryProject, table: str) -> list[tuple[int, str]]:
    found = project.rows(f"{table}_quarantine")
    return sorted((r["_position"]["row"], r["_reasons"][0]) for r in found)


def test_operations_orders_and_times(project):
    assert events(project, "pg.cases", "id", "v") == [
        ("upsert", 90, 1, "s"), ("upsert", 100, 1, "a"), ("delete", 110, 1, None),
        ("truncate", 120, None, None),
    ]  # fmt: skip
    one = dt.datetime(1970, 1, 1, 0, 0, 1, tzinfo=dt.UTC)
    assert {r["_time"] for r in project.rows("pg.cases_changes")} == {one}


def test_messages_that_are_no_changes_are_skipped_and_bad_ones_set_aside(project):
    assert reasons(project, "pg.cases") == [
        (5, "key_mismatch"), (6, "unknown_op"), (12, "malformed"), (13, "null_key"),
    ]  # fmt: skip


def test_a_delete_without_a_row_takes_the_key_of_its_message(project):
    assert events(project, "pg.keyless", "id") == [("delete", 100, 1)]


def test_flattened_rows(project):
    assert events(project, "pg.flat", "id", "v") == [
        ("upsert", 10, 1, "a"), ("upsert", 20, 2, "b"), ("delete", 30, 1, None),
    ]  # fmt: skip
    assert reasons(project, "pg.flat") == [(4, "unknown_op")]
    assert {c for c in project.rows("pg.flat_changes")[0] if not c.startswith("_")} == {"id", "v"}


def test_an_update_of_the_key_is_a_delete_and_an_upsert(project):
    assert events(project, "pg.moved", "id", "v") == [
        ("upsert", 1, "a", "1"), ("delete", 2, "a", None), ("upsert", 2, "b", "2"),
    ]  # fmt: skip


def test_messages_without_a_position_need_an_order(project):
    error = project.failed["my.unordered"]
    assert "order_by" in str(error)
    assert "mongodb" in str(error)


def test_columns_are_added_and_widened_as_the_messages_say(project):
    assert sorted(project.rows("my.product", "id,weight,age,address"), key=lambda r: r["id"]) == [
        {"id": 102, "weight": 8.1, "age": None, "address": None},
        {"id": 103, "weight": 0.8, "age": "18", "address": None},
        {"id": 104, "weight": 0.75, "age": "24", "address": None},
        {"id": 105, "weight": 0.875, "age": None, "address": "Beijing"},
        {"id": 107, "weight": 5.3, "age": None, "address": None},
    ]
    assert str(project.arrow("my.evolved").schema.field("age").type) == "int64"


def test_tables_of_one_topic_are_told_apart(project):
    assert sorted(r["id"] for r in project.rows("all.t1", "id")) == ["101", "102", "103", "104"]
    assert sorted((r["id"], r["address"]) for r in project.rows("all.t2", "id,address")) == [
        ("103", "Beijing"), ("104", "Shanghai"),
    ]  # fmt: skip


def test_a_narrower_type_loads_into_the_wider_column_and_an_incompatible_one_is_refused(project):
    """Decision 0011: an int is a bigint, and a table never becomes narrower; text is no number."""
    folder, name = project.landing / "in" / "evolved", "paimon/debezium/table/schema/schemaevolution"
    land(f"{name}/debezium-data-4.txt", folder / "4.json")
    assert project.failures("ingestion", namespaces=["my.evolved"]) == {}
    land(f"{name}/debezium-data-5.txt", folder / "5.json")
    failed = project.failures("ingestion", namespaces=["my.evolved"])
    assert getattr(failed["my.evolved"], "code", None) == "INCOMPATIBLE_TYPE"
    changes = project.arrow("my.evolved_changes")
    assert str(changes.schema.field("age").type) == "int64"
    assert sorted(zip(*(changes.column(c).to_pylist() for c in ("id", "age")), strict=True)) == [
        (101, None), (103, 18), (104, 24), (105, 24),
    ]  # fmt: skip
