"""Archived files lose the records of a subject too, alone and in bundles; the ledger knows them again."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from harness.project import TemporaryProject

from kedro_lakehouse.erasure.archived import erase_archived
from kedro_lakehouse.file_search.search import search_files
from kedro_lakehouse.file_search.wanted import Wanted
from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import Project

if TYPE_CHECKING:
    from kedro_lakehouse.lake_table import LakeTable

pytestmark = pytest.mark.unit

WANTED = Wanted.of(["7001001"], ["id"])
FILES = {
    "t/001.csv": b"id,n\n7001001,1\n2,9\n", "t/002.csv": b"id,n\n3,4\n",
    "t/003.csv": b"id,n\n7001001,5\n", "other/001.csv": b"id,n\n7001001,1\n",
}  # fmt: skip


@pytest.fixture
def archived(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[LakeTable, Path, list[str]]:
    """A table whose ledger knows its files, which then went to the archive; the third one by itself."""
    source = {"type": "changes", "path": "${globals:landing}", "pattern": "*.csv", "file_format": "csv"}
    declared = {"source": "s", "keys": ["id"], "order_by": ["n"], "subject": "id"}
    project = TemporaryProject.make(tmp_path / "p", {"s": source}, {"shop.t": declared})
    monkeypatch.chdir(project.path)
    for place, content in FILES.items():
        path = project.landing / place
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content)
        os.utime(path, (1_700_000_000, 1_700_000_000))
    table = Project.load(str(project.path / "conf"), None).bind(TableName("shop", "t"))
    ledger, listed = table.open_ledger(), table.open_source().files()
    ledger.plan(ledger.chain(None), listed, {})
    archive = tmp_path / "archive"
    (archive / "s/t").mkdir(parents=True)
    return table, archive, [file.path for file in listed]


def bundle(landing: Path, archive: Path, name: str) -> Path:
    (landing / "t/003.csv").rename(archive / "s/t/003.csv")
    made = archive / "s" / name
    with tarfile.open(made, "w:gz" if name.endswith("gz") else "w") as out:
        for place in ("t/001.csv", "t/002.csv", "other/001.csv"):
            out.add(landing / place, place)
            (landing / place).unlink()
    return made


@pytest.mark.parametrize("name", ["20260101.tar.gz", "20260101.tar"])
def test_files_of_a_table_lose_the_records_and_keep_their_facts(
    archived: tuple[LakeTable, Path, list[str]], name: str
) -> None:
    table, archive, _ = archived
    landing = Path(table.source_config.path)
    before = table.open_source().files()
    made = bundle(landing, archive, name)
    time = made.stat().st_mtime_ns
    changed = erase_archived(table, str(archive), "id", WANTED, leave=frozenset())
    assert changed == [str(made), str(archive / "s/t/003.csv")]
    assert made.stat().st_mtime_ns == time
    assert erase_archived(table, str(archive), "id", WANTED, leave=frozenset()) == []
    (found,) = search_files([str(archive)], WANTED).found
    assert {hit.place.partition(":")[0] for hit in found.hits} == {"other/001.csv"}  # of no table
    with tarfile.open(made) as packed:
        packed.extractall(landing, filter="data")
    (archive / "s/t/003.csv").rename(landing / "t/003.csv")
    assert table.open_source().files() == before
    assert (landing / "t/001.csv").read_bytes() == b"id,n\n" + b" " * 9 + b"\n2,9\n"
    assert (landing / "t/002.csv").read_bytes() == FILES["t/002.csv"]


def test_files_that_other_tables_read_stay(archived: tuple[LakeTable, Path, list[str]]) -> None:
    table, archive, paths = archived
    bundle(Path(table.source_config.path), archive, "a.tar.gz")
    assert erase_archived(table, str(archive), "id", WANTED, leave=frozenset(paths)) == []
    assert erase_archived(table, None, "id", WANTED, leave=frozenset()) == []
    assert erase_archived(table, "gs://b/archive", "id", WANTED, leave=frozenset()) == []
