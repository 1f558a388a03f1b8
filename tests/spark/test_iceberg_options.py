"""Iceberg's ways to write a table: each gives the same rows, and its files are as declared."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pytest
from harness.project import TemporaryProject, write_parquet

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow]

MODES = {f"write.{operation}.mode": "copy-on-write" for operation in ("delete", "update", "merge")}
COMMON: dict[str, Any] = {"source": "shop", "entity": "item", "keys": ["id"], "history": True}
# The default, version 2 and merge-on-read, is what every other test writes.
TABLES: dict[str, Any] = {
    "shop.cow2": COMMON
    | {
        "properties": MODES | {"write.parquet.bloom-filter-enabled.column.id": "true", "custom.team": "a"},
        "sort_by": ["name"],
    },
    "shop.mor3": COMMON | {"properties": {"format-version": "3"}, "partition_by": ["truncate(4, id)"]},
}
SOURCES = {
    "shop": {
        "type": "dms", "path": "${globals:landing}", "sequence_column": "seq", "timestamp_column": "ts",
    }
}  # fmt: skip
START = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - zone-less, as DMS writes it
COLUMNS = {
    "Op": pa.string(), "id": pa.int64(), "name": pa.string(), "seq": pa.string(), "ts": pa.timestamp("us"),
}  # fmt: skip


def land(folder: Path, number: int, events: list[tuple[str, int, str | None]]) -> None:
    rows = [
        {
            "Op": op,
            "id": i,
            "name": name,
            "seq": f"{number:03}{n:04}",
            "ts": START + dt.timedelta(hours=number),
        }
        for n, (op, i, name) in enumerate(events)
    ]
    write_parquet(folder / f"item/2026010{number}-000000000.parquet", rows, COLUMNS)


def rounds() -> list[list[tuple[str, int, str | None]]]:
    """A load, and changes of which some fall on rows that earlier ones wrote."""
    return [
        [("I", i, f"a{i}") for i in range(60)],
        [("U", i, f"b{i}") for i in range(0, 60, 3)] + [("D", i, None) for i in range(1, 60, 10)],
        [("U", i, f"c{i}") for i in range(0, 60, 4)]
        + [("D", i, None) for i in range(2, 60, 9)]
        + [("I", 1, None)],
    ]


def expected() -> dict[int, str | None]:
    rows: dict[int, str | None] = {}
    for events in rounds():
        for op, i, name in events:
            rows[i] = name
            if op == "D":
                del rows[i]
    return rows


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    made = TemporaryProject.make(tmp_path_factory.mktemp("options") / "project", SOURCES, TABLES)
    for number, events in enumerate(rounds(), start=1):
        land(made.landing, number, events)
        made.run()
    return made


@pytest.mark.parametrize("table", TABLES)
def test_every_way_to_write_gives_the_same_rows(project, table):
    rows = project.rows(table, "id,name")
    assert {r["id"]: r["name"] for r in rows} == expected()
    assert project.state(table).rows == len(rows) == len(expected())


def test_every_way_to_write_gives_the_same_history(project):
    columns = "id,name,effective_from,effective_to,is_current"
    one, other = (sorted(repr(r) for r in project.rows(f"{table}_history", columns)) for table in TABLES)
    assert one == other
    assert len(one) > len(expected())
    assert {project.state(f"{table}_history").rows for table in TABLES} == {len(one)}


@pytest.mark.parametrize("table", TABLES)
def test_files_are_as_declared(project, table):
    name = tuple(table.split("."))
    found = project._project.catalog.catalog.load_table(name)
    version, deletes = table[-1], found.inspect.delete_files().to_pylist()
    assert found.metadata.format_version == int(version)
    kinds = {d["file_path"].rpartition(".")[2] for d in deletes}
    assert kinds == (set() if "cow" in table else {"puffin" if version == "3" else "parquet"})
    assert [str(f.transform) for f in found.spec().fields] == (["truncate[4]"] if version == "3" else [])
    assert [f.direction.value for f in found.sort_order().fields] == (["asc"] if table == "shop.cow2" else [])


def test_a_bloom_filter_is_in_each_file_that_should_have_one(project):
    found = project._project.catalog.catalog.load_table(("shop", "cow2"))
    paths = [f["file_path"].removeprefix("file:") for f in found.inspect.data_files().to_pylist()]
    filters = "SELECT path_in_schema FROM parquet_metadata(?) WHERE bloom_filter_offset IS NOT NULL"
    with duckdb.connect() as db:
        assert db.execute(filters, [paths]).fetchall() == [("id",)] * len(paths) != []


def test_a_changed_property_is_taken_over(project):
    declared = TABLES["shop.cow2"]
    changed = declared | {"properties": declared["properties"] | {"custom.team": "b"}, "history": False}
    project.declare(SOURCES, {"shop.cow2": changed})
    land(project.landing, 4, [("U", 3, "e3")])
    project.run()
    assert project.state("shop.cow2").properties["custom.team"] == "b"
