"""Debezium messages: envelopes with and without schema, flattened rows, orders, keys and types."""

from __future__ import annotations

import base64
import datetime as dt
import json
from decimal import Decimal
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
    "pg.toast": {},
    "pg.typed": {},
    "pg.moved": {},
    "my.binlog": {},
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
    stands = "__debezium_unavailable_value"
    bytes_ = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
    fields = [
        {"field": "id", "type": "int32"}, {"field": "t", "type": "string"}, {"field": "b", "type": "bytes"},
        {"field": "a", "type": "array", "items": {"type": "string"}},
    ]  # fmt: skip
    write_text(
        folder / "toast/1.json",
        with_schema(fields, {"id": 1, "t": "x", "b": "EA==", "a": ["p"]}, 1) + "\n"
        + with_schema(fields, {"id": 1, "t": stands, "b": bytes_, "a": [stands]}, 2, "u"),
    )  # fmt: skip
    write_text(
        folder / "moved/1.json",
        message("c", 1, {"id": "a", "v": "1"}) + "\n" + message("u", 2, {"id": "b", "v": "2"}, {"id": "a"}),
    )
    binlog = [
        {"op": "c", "after": {"id": 1, "v": v}, "ts_ms": 5,
         "source": {"connector": "mysql", "file": f, "pos": p, "row": r, "ts_ms": 0}}
        for v, f, p, r in (("last", "bin.1000000", 4, 0), ("first", "bin.999999", 700, 1), ("none", "", 0, 0))
    ]  # fmt: skip
    write_text(folder / "binlog/1.json", "\n".join(map(json.dumps, binlog)))
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
    rows, lines = postgres_types()
    del rows
    write_text(folder / "typed/1.json", lines)


def wire(number: int) -> str:
    """A number as Java's BigInteger writes it, in base64."""
    size = ((number if number >= 0 else ~number).bit_length() + 8) // 8
    return base64.b64encode(number.to_bytes(size, "big", signed=True)).decode()


def decimal_of(scale: str, precision: str | None = None) -> dict[str, Any]:
    known = {"connect.decimal.precision": precision} if precision else {}
    name = "org.apache.kafka.connect.data.Decimal"
    return {"name": name, "type": "bytes", "parameters": {"scale": scale} | known}


def postgres_types() -> tuple[dict[str, Any], str]:
    """Fields as the documentation of Debezium describes them, their wire values, and what they mean."""
    time, data = "io.debezium.time.", "io.debezium.data."
    utc = dt.datetime(2018, 6, 20, 15, 13, 16, 945104)  # noqa: DTZ001 - zone-less
    facts: list[tuple[str, dict[str, Any], Any, Any]] = [
        ("id", {"type": "int32"}, 1, 1),
        ("small", {"type": "int16"}, -7, -7), ("big", {"type": "int64"}, 2**63 - 1, 2**63 - 1),
        ("yes", {"type": "boolean"}, True, True), ("real", {"type": "float"}, 0.5, 0.5),
        ("dbl", {"type": "double"}, 404.4443, 404.4443),
        ("num", decimal_of("2", "10"), "//8=", Decimal("-0.01")),
        ("num38", decimal_of("0"), wire(10**38 - 1), Decimal(10**38 - 1)),
        ("neg65", decimal_of("1", "65"), "/w==", "-0.1"),
        ("big65", decimal_of("30", "65"), wire(-(10**64) - 1), "-" + "1" + "0" * 34 + "." + "0" * 29 + "1"),
        ("uint64", decimal_of("0", "20"), "AP//////////", Decimal(2**64 - 1)),
        ("free", {"name": data + "VariableScaleDecimal", "type": "struct", "fields": [
            {"field": "scale", "type": "int32"}, {"field": "value", "type": "bytes"}]},
            {"scale": 4, "value": "EtaH"}, "123.4567"),
        ("day", {"name": time + "Date", "type": "int32"}, 17702, dt.date(2018, 6, 20)),
        ("clock", {"name": time + "MicroTime", "type": "int64"}, 54_796_945_104, "15:13:16.945104"),
        ("clock_ms", {"name": time + "Time", "type": "int32"}, 54_796_000, "15:13:16"),
        ("long_time", {"name": time + "MicroTime", "type": "int64"}, -3_020_399_000_000, "-838:59:59"),
        ("ms", {"name": time + "Timestamp", "type": "int64"}, 1529507596945, utc.replace(microsecond=945000)),
        ("us", {"name": time + "MicroTimestamp", "type": "int64"}, 1529507596945104, utc),
        ("ns", {"name": time + "NanoTimestamp", "type": "int64"}, 1529507596945104999, utc),
        ("zoned", {"name": time + "ZonedTimestamp", "type": "string"}, "2018-06-20T15:13:16.945104+02:00",
            dt.datetime(2018, 6, 20, 13, 13, 16, 945104, tzinfo=dt.UTC)),
        ("zoned_time", {"name": time + "ZonedTime", "type": "string"}, "15:13:16Z", "15:13:16Z"),
        ("year", {"name": time + "Year", "type": "int32"}, 2021, 2021),
        ("span", {"name": time + "MicroDuration", "type": "int64"}, 37091106000000, 37091106000000),
        ("iso", {"name": time + "Interval", "type": "string"}, "P1Y2M3DT4H5M6S", "P1Y2M3DT4H5M6S"),
        ("uuid", {"name": data + "Uuid", "type": "string"}, "a0ee-11", "a0ee-11"),
        ("doc", {"name": data + "Json", "type": "string"}, '{"a": 1.10}', '{"a": 1.10}'),
        ("bits", {"name": data + "Bits", "type": "bytes"}, "AwE=", b"\x03\x01"),
        ("raw", {"type": "bytes"}, "3q2+7w==", b"\xde\xad\xbe\xef"),
        ("tags", {"type": "array", "items": {"type": "string"}}, ["a", None], ["a", None]),
        ("days", {"type": "array", "items": {"name": time + "Date", "type": "int32"}}, [0, 1],
            [dt.date(1970, 1, 1), dt.date(1970, 1, 2)]),
        ("hstore", {"type": "map", "keys": {"type": "string"}, "values": {"type": "string"}},
            {"k": "v"}, [("k", "v")]),
        ("point", {"name": data + "geometry.Point", "type": "struct", "fields": [
            {"field": "x", "type": "double"}, {"field": "y", "type": "double"},
            {"field": "wkb", "type": "bytes"}, {"field": "srid", "type": "int32"}]},
            {"x": 1.0, "y": 2.5, "wkb": "AQ==", "srid": None},
            {"x": 1.0, "y": 2.5, "wkb": b"\x01", "srid": None}),
        ("none", {"type": "int64", "optional": True}, None, None),
    ]  # fmt: skip
    fields = [f | {"field": n} for n, f, _, _ in facts]
    return {n: m for n, _, _, m in facts}, with_schema(fields, {n: w for n, _, w, _ in facts}, 1)


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
        (5, "key_mismatch"), (6, "unknown_op"), (12, "malformed"), (13, "incompatible_type"),
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


def test_binlog_files_are_counted_not_spelled(project):
    assert events(project, "my.binlog", "v") == [
        ("upsert", 999999, 700, 1, "first"),
        ("upsert", 1000000, 4, 0, "last"),
    ]
    assert reasons(project, "my.binlog") == [(3, "null_sequence")]
    assert project.rows("my.binlog", "v") == [{"v": "last"}]


def test_messages_without_a_position_need_an_order(project):
    error = project.failed["my.unordered"]
    assert "order_by" in str(error)
    assert "mongodb" in str(error)


def test_every_postgresql_type(project):
    expected, _ = postgres_types()
    [row] = project.rows("pg.typed_changes")
    assert {n: row[n] for n in expected} == expected


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


def test_narrower_types_are_refused(project):
    folder = project.landing / "in" / "evolved"
    for i in (4, 5):
        file = land(
            f"paimon/debezium/table/schema/schemaevolution/debezium-data-{i}.txt", folder / f"{i}.json"
        )
        failed = project.failures("ingestion", namespaces=["my.evolved"])
        assert getattr(failed["my.evolved"], "code", None) == "INCOMPATIBLE_TYPE", i
        file.unlink()
