"""Debezium's types and positions: what a message's values and its place in a log mean in a table."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from harness.debezium import (
    AS_NUMBERS,
    EVERY_MYSQL,
    FLINK,
    NUMBERS_MEAN,
    Fact,
    described,
    every_postgres,
    mysql_bytes,
    utc,
    with_schema,
)
from harness.fixtures import land, records
from harness.project import TemporaryProject, write_text
from harness.soak import only_in_soak

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow, only_in_soak]

HERE: dict[str, Any] = {"type": "debezium", "path": "${globals:landing}/in"}
BY_TIMESTAMP: dict[str, Any] = {"order_by": ["timestamp_c"]}
BARE = {"timestamp_c": "timestamp", "date_c": "date", "file_uuid": "binary", "blob_c": "binary",
    "tiny_un_c": "int", "int_un_c": "bigint", "float_c": "double", "bit1_c": "boolean",
    "year_c": "int"}  # fmt: skip
NUMBERS = {"timestamp_c": "timestamp", "big_un_c": "decimal(20,0)", "decimal_c": "decimal(8,4)",
    "numeric_c": "decimal(6,0)", "big_decimal_c": "decimal(38,1)"}  # fmt: skip
TABLES: dict[str, Any] = {
    "db.every_mysql": {
        "keys": ["_id"],
        "order_by": ["at"],
        "rename": {"__source_ts_ms": "at", "_time": "clock"},
    },
    "db.mysql_bytes": {},
    "db.mysql_bare": BY_TIMESTAMP | {"types": BARE},
    "db.mysql_numbers": BY_TIMESTAMP
    | {"types": NUMBERS, "columns": {"include": [*NUMBERS, "id", "big_un_z_c", "decimal_un_c"]}},
    "db.contradicting": {},
    "db.no_envelope": {},
    "db.every_postgres": {},
    "db.toasted": {"history": True},
    "db.binlog": {},
    "db.postgres": {"types": {"id": "int"}},
    "db.sqlserver": {},
    "db.oracle": {},
}
FOLDED = ("toasted", "binlog", "postgres", "sqlserver", "oracle")
PG = {"connector": "postgresql", "db": "shop", "schema": "public", "table": "t", "ts_ms": 1000}

STANDS = "__debezium_unavailable_value"
STANDS_64 = "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="
TOASTED: list[Fact] = [
    ("id", {"type": "int32"}, 1, STANDS), ("v", {"type": "string"}, "one", "two"),
    ("t", {"type": "string"}, "x", STANDS), ("b", {"type": "bytes"}, "EA==", STANDS_64),
    ("texts", {"type": "array", "items": {"type": "string"}}, ["p"], [STANDS]),
    ("ints", {"type": "array", "items": {"type": "int32"}}, [7], list(STANDS.encode())),
    ("pairs", {"type": "map", "keys": {"type": "string"}, "values": {"type": "string"}},
        {"k": "v"}, {STANDS: STANDS}),
]  # fmt: skip


def message(op: str, source: dict[str, Any], after: Any = None, before: Any = None, key: Any = None) -> str:
    value = {"op": op, "before": before, "after": after, "source": source, "ts_ms": 2000}
    return json.dumps({"key": key, "value": value} if key is not None else value)


def binlog() -> str:
    places = [("last", "bin.1000000", 4, 0), ("second", "bin.999999", 700, 1),
        ("first", "bin.999999", 700, 0), ("zeroth", "bin.999999", 99, 5), ("none", "", 0, 0)]  # fmt: skip
    at = {"connector": "mysql", "ts_ms": 0}
    return "\n".join(
        message("c", at | {"file": f, "pos": p, "row": r}, {"id": "1", "v": v}) for v, f, p, r in places
    )


def postgres() -> str:
    def change(op: str, lsn: int, after: Any = None, before: Any = None, key: Any = None) -> str:
        return message(op, PG | {"lsn": lsn}, after, before, key)

    return "\n".join([
        change("u", 1000, {"id": 1, "v": "c"}), change("u", 200, {"id": 1, "v": "b"}),
        change("c", 99, {"id": 1, "v": "a"}), change("d", 400, key={"id": 2}),
        change("c", 110, {"id": 2, "v": "x"}), change("c", 120, {"id": 3, "v": "y"}),
        change("u", 410, {"id": 4, "v": "z"}, {"id": 3, "v": "y"}, {"id": 4}), change("t", 95),
        change("c", 90, {"id": 5, "v": "emptied"}), change("u", 420, {"id": 6, "v": "q"}, key={"id": 7}),
        change("d", 430),
    ])  # fmt: skip


def sqlserver() -> str:
    def change(v: str, commit: str, at: str | None, serial: int | None) -> str:
        where = {"connector": "sqlserver", "commit_lsn": commit, "change_lsn": at, "event_serial_no": serial}
        return message("c", where | {"ts_ms": 1000}, {"id": "1", "v": v})

    early, late = "00000027:00000ac0:0002", "00000027:00000ac0:000a"
    return "\n".join([
        change("3", early, "00000027:00000ff0:0002", 2), change("4", late, "00000027:00000aa0:0001", 1),
        change("1", early, "00000027:00000ff0:0001", 1), change("2", early, "00000027:00000ff0:0002", 1),
        change("0 snapshot", "00000027:00000758:0003", None, None),
    ])  # fmt: skip


def oracle() -> str:
    def change(v: str, scn: str, rs_id: str | None, ssn: int | None) -> str:
        where = {"connector": "oracle", "scn": scn, "rs_id": rs_id, "ssn": ssn, "ts_ms": 1000}
        return message("c", where, {"ID": "1", "V": v})

    return "\n".join([
        change("2", "2868546", " 0x000083.0000ea3e.01a8 ", 1), change("4", "10000000", "0x000001", 0),
        change("3", "2868546", " 0x000083.0000ea3f.0010 ", 0), change("0 snapshot", "9", None, None),
        change("1", "2868546", " 0x000083.0000ea3e.01a8 ", 0),
    ])  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    tables = {n: {"source": "db", "keys": ["id"]} | t for n, t in TABLES.items()}
    tables["db.oracle"]["keys"] = ["ID"]
    made = TemporaryProject.make(tmp_path_factory.mktemp("types") / "p", {"db": HERE}, tables)
    land_everything(made.landing / "in")
    made.failed = made.failures("ingestion")  # type: ignore[attr-defined]
    # What a type means is told by the changes already.
    made.run("cdc_merge", "scd2", namespaces=[f"db.{t}" for t in FOLDED])
    return made


def land_everything(folder: Path) -> None:
    land("paimon/debezium/table/schema/alltype/debezium-data-1.txt", folder / "every_mysql/1.json")
    land(f"{FLINK}exclude.json", folder / "mysql_bare/1.json")
    land(f"{FLINK}exclude-with-numeric-decimal.json", folder / "mysql_numbers/1.json")
    for table, record in zip(("contradicting", "no_envelope"), records(f"{FLINK}include.json"), strict=True):
        write_text(folder / table / "1.json", record)
    at = {"connector": "mysql", "file": "bin.000003", "pos": 4, "row": 0, "ts_ms": 1000}
    write_text(folder / "mysql_bytes/1.json", described(mysql_bytes(), at))
    write_text(folder / "every_postgres/1.json", described(every_postgres(), PG | {"lsn": 1}, AS_NUMBERS))
    fields = [f | {"field": n} for n, f, _, _ in TOASTED]
    rows = {n: w for n, _, w, _ in TOASTED}, {n: s for n, _, _, s in TOASTED} | {"id": 1}
    messages = [with_schema(fields, r, PG | {"lsn": i}) for i, r in enumerate(rows, 1)]
    write_text(folder / "toasted/1.json", "\n".join(messages))
    for make in (binlog, postgres, sqlserver, oracle):
        write_text(folder / make.__name__ / "1.json", make())


def events(project: TemporaryProject, table: str, *columns: str) -> list[tuple[Any, ...]]:
    found = [
        (*r["_order"].values(), r["_op"], *(r[c] for c in columns)) for r in project.rows(f"{table}_changes")
    ]
    return sorted(found, key=lambda e: [(v is not None, v) for v in e])


def reasons(project: TemporaryProject, table: str) -> dict[int, str]:
    return {r["_position"]["row"]: r["_reasons"][0] for r in project.rows(f"{table}_quarantine")}


def without_pairs(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{n: dict(v) if n in ("hstore", "pairs") and v else v for n, v in r.items()} for r in rows]


def test_a_schema_that_describes_no_envelope_has_no_key(project):
    """The fixture's second message: its schema lists the columns where the images should be."""
    assert {t: getattr(e, "code", None) for t, e in project.failed.items()} == {
        "db.no_envelope": "MISSING_COLUMN"
    }


def test_every_mysql_type_with_its_schema_and_decimals_as_numbers(project):
    [row] = project.rows("db.every_mysql_changes")
    assert {n: row[n] for n in EVERY_MYSQL} == EVERY_MYSQL
    types = project.arrow("db.every_mysql_changes").schema
    assert str(types.field("_bigint_unsigned").type) == "decimal128(38, 0)"
    assert str(types.field("_numeric").type) == "decimal128(8, 3)"


def test_every_mysql_type_with_its_schema_and_decimals_as_bytes(project):
    [row] = project.rows("db.mysql_bytes_changes")
    expected = {n: m for n, _, _, m in mysql_bytes()}
    assert {n: row[n] for n in expected} == expected


def test_without_a_schema_text_stays_and_declared_types_read_it(project):
    _, row = sorted(project.rows("db.mysql_bare_changes"), key=lambda r: r["timestamp_c"])
    expected = {
        # Nothing tells the scale of these bytes.
        "id": "AQ==", "decimal_c": "EtaH", "big_un_c": "AP//////////", "big_c": "9223372036854775807",
        "time_c": "64822000000", "datetime3_c": "1595008822123", "real_c": "123.102", "tiny_blob_c": "EA==",
        "point_c": '{"x":1.0,"y":1.0,"wkb":"AQEAAAAAAAAAAADwPwAAAAAAAPA/","srid":null}',
        "json_c": '{"key1":"value1"}', "set_c": "a,b", "varchar_len0_c": "",
        "timestamp_c": utc(2020, 7, 17, 18, 33, 22), "date_c": dt.date(2020, 7, 17),
        "file_uuid": bytes.fromhex("651aed08390f4893b2f136923e7b7400"), "blob_c": b"\x10",
        "tiny_un_c": 255, "int_un_c": 4294967295, "float_c": 123.102, "bit1_c": False, "year_c": 2021,
    }  # fmt: skip
    assert {n: row[n] for n in expected} == expected


def test_decimals_as_numbers_are_exact_without_a_schema(project):
    _, row = sorted(project.rows("db.mysql_numbers_changes"), key=lambda r: r["timestamp_c"])
    expected = {
        "id": "1", "big_un_c": Decimal(2**64 - 1), "big_un_z_c": str(2**64 - 1),
        "decimal_c": Decimal("123.4567"), "decimal_un_c": "123.4568", "numeric_c": Decimal(346),
        "big_decimal_c": Decimal("34567892.1"), "timestamp_c": utc(2020, 7, 17, 18, 33, 22),
    }  # fmt: skip
    assert {n: row[n] for n in expected} == expected


def test_values_that_contradict_their_schema_are_set_aside(project):
    """The fixture's first message calls its key an int32, and sends it as base64."""
    assert reasons(project, "db.contradicting") == {1: "null_key"}
    assert project.rows("db.contradicting_changes") == []


def test_every_postgresql_type(project):
    one, two = sorted(without_pairs(project.rows("db.every_postgres_changes")), key=lambda r: r["id"])
    expected = {n: m for n, _, _, m in every_postgres()} | {"hstore": {"k": "v"}}
    assert {n: one[n] for n in expected} == expected
    assert {n: two[n] for n in expected} == dict.fromkeys(expected) | NUMBERS_MEAN


def test_values_that_postgresql_did_not_log_again_stay(project):
    first = {"id": 1, "v": "one", "t": "x", "b": b"\x10", "texts": ["p"], "ints": [7], "pairs": {"k": "v"}}
    second = first | {"v": "two"}
    [current] = without_pairs(project.rows("db.toasted"))
    assert {n: current[n] for n in second} == second
    history = sorted(without_pairs(project.rows("db.toasted_history")), key=lambda r: r["_order_from"]["lsn"])
    assert [{n: r[n] for n in first} for r in history] == [first, second]
    unset = {r["_order"]["lsn"]: r["_unset"] for r in project.rows("db.toasted_changes")}
    assert unset == {1: None, 2: ["b", "ints", "pairs", "t", "texts"]}


def test_mysql_is_ordered_by_file_number_position_and_row(project):
    assert events(project, "db.binlog", "v") == [
        (999999, 99, 5, "upsert", "zeroth"), (999999, 700, 0, "upsert", "first"),
        (999999, 700, 1, "upsert", "second"), (1000000, 4, 0, "upsert", "last"),
    ]  # fmt: skip
    assert reasons(project, "db.binlog") == {5: "null_sequence"}
    assert project.rows("db.binlog", "v") == [{"v": "last"}]


def test_postgresql_is_ordered_by_lsn_with_truncates_deletes_and_key_changes(project):
    assert events(project, "db.postgres", "id", "v") == [
        (90, "upsert", 5, "emptied"), (95, "truncate", None, None), (99, "upsert", 1, "a"),
        (110, "upsert", 2, "x"), (120, "upsert", 3, "y"), (200, "upsert", 1, "b"),
        (400, "delete", 2, None), (410, "delete", 3, None), (410, "upsert", 4, "z"), (1000, "upsert", 1, "c"),
    ]  # fmt: skip
    rows = project.rows("db.postgres", "id,v")
    assert sorted((r["id"], r["v"]) for r in rows) == [(1, "c"), (4, "z")]
    assert reasons(project, "db.postgres") == {10: "key_mismatch", 11: "null_key"}


def test_sql_server_is_ordered_by_commit_then_change_then_serial_number(project):
    assert [e[-1] for e in events(project, "db.sqlserver", "v")] == ["0 snapshot", "1", "2", "3", "4"]
    assert project.rows("db.sqlserver", "v") == [{"v": "4"}]


def test_oracle_is_ordered_by_scn_as_a_number_then_by_its_redo_record(project):
    assert [e[-1] for e in events(project, "db.oracle", "V")] == ["0 snapshot", "1", "2", "3", "4"]
    assert project.rows("db.oracle", "V") == [{"V": "4"}]
