"""JSON lines: plain rows, and DMS records as they go to Kinesis and Kafka."""

from __future__ import annotations

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

JSON: dict[str, Any] = {"path": "${globals:landing}/in", "file_format": "json"}
SOURCES = {
    "rows": JSON | {"type": "changes"},
    "ext": JSON | {"type": "extract", "extract_time": {"from": "name", "pattern": "%Y-%m-%d"}},
    "dms": JSON | {"type": "dms"},
    "stream": JSON | {"type": "dms", "shared": True, "path": "${globals:landing}/stream"},
}
TABLES: dict[str, Any] = {
    "rows.texts": {"order_by": ["n"]},
    "rows.typed": {
        "order_by": ["n"],
        "types": {
            "id": "bigint", "n": "int", "big": "decimal(38,18)", "at": "timestamp", "tags": "array<int>",
            "place": "struct<x:double,name:string>",
        },
    },
    "ext.item": {},
    "dms.product": {"types": {"id": "int", "weight": "double"}},
    "dms.mixed": {},
    "dms.moved": {},
    "stream.t1": {"entity": "paimon_sync_database/t1"},
    "stream.t2": {"entity": "t2"},
}  # fmt: skip
EXACT = "12345678901234567890.123456789012345678"


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    tables = {n: {"source": n.split(".")[0], "keys": ["id"]} | t for n, t in TABLES.items()}
    made = TemporaryProject.make(tmp_path_factory.mktemp("json") / "p", SOURCES, tables)
    land_everything(made.landing)
    made.run("ingestion", "cdc_merge")
    return made


def land_everything(landing: Path) -> None:
    folder = landing / "in"
    texts = [
        '\ufeff{"id": 1, "n": 1, "big": ' + EXACT + ', "neg": -1.50, "exp": 1E400, '
        '"deep": {"x": 1.10, "y": [2.50, "3.0"]}}',
        "",
        ('{"id": 2, "n": 2, "text": "say \\"1.5\\" \\u00e9", "no": null, "yes": true, '
        '"int": 18446744073709551615}'),
        "[1]", '{"id": 3', '{"id": 4, "n": 1} {"id": 5}', "{}",
    ]  # fmt: skip
    write_text(folder / "texts" / "b.json", "\n".join(texts) + "\n")
    write_text(folder / "texts" / "a.json", '{"id": 9, "n": 0, "only_here": "x"}\r\n')
    write_text(folder / "texts" / "empty.json", "")
    row = {"id": 1, "n": 1, "at": "2026-01-01T00:00:01.5Z", "tags": [1, 2], "place": {"x": 0.1, "name": "p"}}
    bad = [{"id": 2, "n": 2, "tags": [1, "x"]}, {"id": 3, "n": 3, "place": {"x": "far"}}, {"id": 4, "n": "x"}]
    lines = [json.dumps(row)[:-1] + f', "big": {EXACT}}}', *map(json.dumps, bad)]
    write_text(folder / "typed" / "a.json", "\n".join(lines))
    write_text(folder / "item" / "2026-01-01.json", '{"id": 1, "v": 1.0}\n{"id": 2, "v": 2.0}\n')
    write_text(folder / "item" / "2026-01-02.json", '{"id": 1, "v": 1.5}\n')

    for i in (1, 2, 3, 4):
        name = f"paimon/aws-dms/table/schemaevolution/aws-dms-data-{i}.txt"
        land(name, folder / "product" / f"{i}.json")
    for topic in (0, 1):
        for i in (1, 2):
            name = f"paimon/aws-dms/database/schemaevolution/topic{topic}/aws-dms-data-{i}.txt"
            land(name, landing / "stream" / f"{i}-{topic}.json")

    def record(operation: str, data: dict[str, Any] | None, second: int, **more: Any) -> str:
        time = f"2026-01-01T00:00:{second:02}.000001Z"
        meta = {"timestamp": time, "record-type": "data", "operation": operation, "table-name": "t"}
        return json.dumps({"data": data, "metadata": meta} | more)

    control = {"metadata": {"record-type": "control", "operation": "create-table", "table-name": "t"}}
    mixed = [
        json.dumps(control), record("load", {"id": 1, "v": "loaded"}, 9),
        record("update", {"id": 1, "v": "changed"}, 5), record("load", {"id": 2, "v": "two"}, 9),
        record("delete", {"id": 2}, 7), record("upserted", {"id": 3}, 8), '{"id": 3}', "no json",
        json.dumps(control),
    ]  # fmt: skip
    write_text(folder / "mixed" / "1.json", "\n".join(mixed))
    write_text(folder / "mixed" / "0-control.json", json.dumps(control))
    moved = [
        record("insert", {"id": "a", "v": "1"}, 1),
        record("update", {"id": "b", "v": "2"}, 2, **{"before-image": {"id": "a", "v": "1"}}),
        record("update", {"id": "b", "v": "3"}, 3, **{"before-image": {"id": "b", "v": "2"}}),
    ]
    write_text(folder / "moved" / "1.json", "\n".join(moved))


def rows(project: TemporaryProject, table: str, *columns: str) -> list[tuple[Any, ...]]:
    found = project.rows(table, ",".join(columns))
    return sorted((tuple(r[c] for c in columns) for r in found), key=str)


def quarantined(project: TemporaryProject, table: str) -> list[tuple[int, list[str], str]]:
    found = project.rows(f"{table}_quarantine")
    return sorted((r["_position"]["row"], r["_reasons"], r["_raw"]) for r in found)


def test_values_are_the_text_that_was_sent(project):
    [one] = [r for r in project.rows("rows.texts_changes") if r["id"] == "1"]
    assert {c: one[c] for c in ("big", "neg", "exp")} == {"big": EXACT, "neg": "-1.50", "exp": "1E400"}
    assert one["deep"] == '{"x":1.10,"y":[2.50,"3.0"]}'
    [two] = [r for r in project.rows("rows.texts_changes") if r["id"] == "2"]
    assert (two["text"], two["no"], two["yes"], two["int"]) == (
        'say "1.5" é', None, "true", "18446744073709551615",
    )  # fmt: skip


def test_names_are_the_union_over_the_files(project):
    found = project.rows("rows.texts_changes")
    assert {c for c in found[0] if not c.startswith("_")} == {
        "id", "n", "big", "neg", "exp", "deep", "text", "no", "yes", "int", "only_here",
    }  # fmt: skip
    assert sorted((r["id"], r["only_here"], *r["_position"].values()) for r in found) == [
        ("1", None, "b.json", 1), ("2", None, "b.json", 3), ("9", "x", "a.json", 1),
    ]  # fmt: skip


def test_a_line_that_is_no_object_is_malformed(project):
    assert quarantined(project, "rows.texts") == [
        (4, ["malformed", "null_key", "null_sequence"], "[1]"),
        (5, ["malformed", "null_key", "null_sequence"], '{"id": 3'),
        (6, ["malformed", "null_key", "null_sequence"], '{"id": 4, "n": 1} {"id": 5}'),
        (7, ["null_key", "null_sequence"], "{}"),
    ]


def test_declared_types_read_nested_values_and_keep_every_digit(project):
    assert rows(project, "rows.typed_changes", "id", "big", "at", "tags", "place") == [
        (
            1, Decimal(EXACT), dt.datetime(2026, 1, 1, 0, 0, 1, 500000, tzinfo=dt.UTC), [1, 2],
            {"x": 0.1, "name": "p"},
        )
    ]  # fmt: skip
    found = [(row, reasons) for row, reasons, _ in quarantined(project, "rows.typed")]
    assert found == [
        (2, ["incompatible_type"]), (3, ["incompatible_type"]), (4, ["null_sequence", "incompatible_type"]),
    ]  # fmt: skip


def test_extracts_may_be_json(project):
    assert rows(project, "ext.item_changes", "_op", "id", "v") == [
        ("delete", "2", None), ("upsert", "1", "1.0"), ("upsert", "1", "1.5"), ("upsert", "2", "2.0"),
    ]  # fmt: skip


def test_dms_json_evolves_as_its_records_do(project):
    # 103 and 104 come twice (age, then without it); of 105 the later record wins, and 101 is deleted.
    drill, hammer = "12-pack of drill bits with sizes ranging from #40 to #3", "12oz carpenter's hammer"
    assert rows(project, "dms.product", "id", "description", "weight", "age", "address") == [
        (102, "12V car battery", 8.1, None, None), (103, drill, None, None, None),
        (104, hammer, 0.75, None, None), (105, "14oz carpenter's hammer", 0.875, None, "Beijing"),
        (107, "box of assorted rocks", 5.3, None, None),
    ]  # fmt: skip
    [row] = [r for r in project.rows("dms.product_changes") if r["id"] == 105 and r["address"] == "Beijing"]
    time = dt.datetime(2024, 10, 27, 12, 39, 3, 210671)  # noqa: DTZ001 - zone-less, as DMS writes it
    assert row["_time"] == time
    assert row["_order"] == {"commit_time": time, "file_name": "3.json", "row_number": 3}
    assert {c for c in row if not c.startswith("_")} == {
        "id", "name", "description", "weight", "age", "address",
    }  # fmt: skip


def test_dms_json_of_several_tables_is_told_apart_by_metadata(project):
    assert rows(project, "stream.t1", "id", "name", "age") == [
        ("101", "scooter", None), ("102", "car battery", None), ("103", "12-pack drill bits", "19"),
        ("104", "hammer", "25"),
    ]  # fmt: skip
    assert rows(project, "stream.t2", "id", "name", "address") == [
        ("103", "12-pack drill bits", "Beijing"), ("104", "hammer", "Shanghai"),
    ]  # fmt: skip


def test_loaded_records_come_before_all_changes_and_control_records_are_none(project):
    assert rows(project, "dms.mixed", "id", "v") == [("1", "changed")]
    found = quarantined(project, "dms.mixed")
    assert [(row, reasons[0]) for row, reasons, _ in found] == [
        (6, "unknown_op"), (7, "malformed"), (8, "malformed"),
    ]  # fmt: skip
    assert len(project.rows("dms.mixed_changes")) == 4


def test_a_before_image_tells_the_key_that_an_update_changed(project):
    assert rows(project, "dms.moved_changes", "_op", "id", "v") == [
        ("delete", "a", None), ("upsert", "a", "1"), ("upsert", "b", "2"), ("upsert", "b", "3"),
    ]  # fmt: skip
    assert rows(project, "dms.moved", "id", "v") == [("b", "3")]
