"""A table's metadata is parsed once for each state, and every lookup gives the newest one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.avro.file import AvroFile
from pyiceberg.catalog import sql

from kedro_lakehouse.names import TableName
from kedro_lakehouse.session.catalog import MetadataCatalog

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.unit

NAME = TableName("shop", "item")
ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


def catalog_in(folder: Path) -> MetadataCatalog:
    return MetadataCatalog(
        {
            "spark.sql.catalog.lake.type": "jdbc",
            "spark.sql.catalog.lake.uri": f"jdbc:sqlite:file:{folder}/catalog.db",
            "spark.sql.catalog.lake.warehouse": f"{folder}/warehouse",
        }
    )


def test_each_state_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = catalog_in(tmp_path), catalog_in(tmp_path)
    one.ensure_namespace("shop")
    made = one.create().create_table(NAME.identifier, schema=ROWS.schema)
    parsed: list[str] = []
    parse = sql.FromInputFile.table_metadata
    monkeypatch.setattr(
        sql.FromInputFile, "table_metadata", lambda file: parsed.append(file.location) or parse(file)
    )
    assert [one.rows(NAME), one.rows(NAME)] == [0, 0]
    assert len(parsed) <= 1
    found = other.find(NAME)
    assert found is not None
    found.append(ROWS)  # another process
    before = len(parsed)
    assert [one.rows(NAME) for _ in range(3)] == [2, 2, 2]
    assert len(parsed) == before + 1
    assert made.location() == found.location()
    # What a process wrote it does not parse; what it keeps is what others read from the file.
    written, read = other.find(NAME), one.find(NAME)
    assert written is not None
    assert read is not None
    assert len(parsed) == before + 1
    assert written.metadata is not read.metadata
    assert written.metadata == read.metadata


def test_a_table_made_anew_is_another_one(tmp_path: Path) -> None:
    catalog = catalog_in(tmp_path)
    catalog.ensure_namespace("shop")
    catalog.create().create_table(NAME.identifier, schema=ROWS.schema).append(ROWS)
    assert catalog.rows(NAME) == 2
    catalog.purge(NAME)
    assert catalog.find(NAME) is None
    catalog.create().create_table(NAME.identifier, schema=ROWS.schema)
    assert catalog.rows(NAME) == 0


def test_what_one_does_to_a_table_it_has_found_nobody_else_sees(tmp_path: Path) -> None:
    catalog = catalog_in(tmp_path)
    catalog.ensure_namespace("shop")
    catalog.create().create_table(NAME.identifier, schema=ROWS.schema)
    first, second = catalog.find(NAME), catalog.find(NAME)
    assert first is not None
    assert second is not None
    first.append(ROWS)
    assert second.current_snapshot() is None
    assert first.current_snapshot() is not None


def test_each_manifest_is_parsed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = catalog_in(tmp_path)
    catalog.ensure_namespace("shop")
    made = catalog.create().create_table(NAME.identifier, schema=ROWS.schema)
    opened: list[str] = []
    enter = AvroFile.__enter__
    monkeypatch.setattr(
        AvroFile, "__enter__", lambda file: opened.append(file.input_file.location) or enter(file)
    )
    for number in range(1, 4):
        made.append(ROWS)
        found = catalog.find(NAME)
        assert found is not None
        for _ in range(3):
            assert len(list(found.scan().plan_files())) == number
    manifests = [place for place in opened if "/snap-" not in place]
    assert sorted(manifests) == sorted(set(manifests))
    assert len(manifests) == 3
