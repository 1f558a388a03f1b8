"""Copies of a value, planted in ten places of a lakehouse: the search names each file that holds one."""

from __future__ import annotations

import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from harness.project import TemporaryProject, write_text

from kedro_lakehouse.erasure.find_value import find_value
from kedro_lakehouse.file_search.wanted import Wanted
from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import Project, activate

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SOURCES: dict[str, Any] = {
    "shop": {"type": "changes", "path": "${globals:landing}/shop", "pattern": "*.csv", "file_format": "csv"}
}
TABLES: dict[str, Any] = {
    "shop.item": {"source": "shop", "keys": ["id"], "order_by": ["n"], "types": {"id": "int", "n": "int"}}
}
ITEM = "lake.shop.item"


def planted(number: int) -> str:
    return f"planted copy {number:02}, Vandermeulen"


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A lakehouse with a copy in each of ten places."""
    made = TemporaryProject.make(tmp_path_factory.mktemp("planted") / "project", SOURCES, TABLES)
    archive = made.path / "archive"
    made.write("maintenance", {"landing": {"archive": str(archive)}})
    landing = made.landing / "shop/item"
    write_text(landing / "1.csv", f'id,name,n\n1,a,1\nnone,"{planted(1)}",2\n')
    made.run("ingestion", "cdc_merge")
    project = activate(Project.load(str(made.path / "conf"), None))
    folder = Path(project.lakehouse.removeprefix("file://"))
    plant_in_tables(project.session)
    write_text(landing / "2.csv", f'id,name,n\n2,"{planted(5)}",1\n')  # landed, and in no table yet
    write_text(made.path / "lakehouse/logs/a_run.jsonl", f'{{"msg": "{planted(6)}"}}\n')
    with closing(sqlite3.connect(folder / "catalog.db")) as base:
        base.execute("pragma secure_delete = off")
        base.execute("create table noted (text)")
        base.execute("insert into noted values (?)", [planted(7)])
        base.commit()
        base.execute("delete from noted")  # its page still has it
        base.commit()
    rows = pa.table({"name": [planted(8)]})
    deltalake.write_deltalake(str(folder / "warehouse/shop/visits"), rows)
    next((folder / "warehouse/shop/visits").glob("*.parquet")).unlink()  # the log's statistics still have it
    (archive / "shop").mkdir(parents=True)
    with tarfile.open(archive / "shop/1.tar.gz", "w:gz") as bundle:
        write_text(made.path / "0.csv", f'id,name,n\n9,"{planted(9)}",1\n')
        bundle.add(made.path / "0.csv", "item/0.csv")
    (made.path / "0.csv").unlink()
    orphan = folder / "warehouse/shop/item/data/00000-never-committed.parquet"
    pq.write_table(pa.table({"name": [planted(10)]}), orphan)
    return project


def plant_in_tables(session: SparkSession) -> None:
    """Rows that no query finds any more, in a table's own files."""

    def insert(number: int) -> None:
        session.sql(f"INSERT INTO {ITEM} BY NAME SELECT {number} AS id, '{planted(number)}' AS name, 1 AS n")

    def delete(number: int, mode: str) -> None:
        session.sql(f"ALTER TABLE {ITEM} SET TBLPROPERTIES ('write.delete.mode' = '{mode}')")
        session.sql(f"DELETE FROM {ITEM} WHERE id = {number}")

    rows = f"(102, '{planted(2)}', 1), (120, 'b', 1)"
    session.sql(
        f"INSERT INTO {ITEM} BY NAME SELECT /*+ COALESCE(1) */ * FROM VALUES {rows} AS t(id, name, n)"
    )
    delete(102, "merge-on-read")
    insert(3)
    session.sql(f"ALTER TABLE {ITEM} CREATE TAG audit")
    delete(3, "copy-on-write")
    insert(4)
    delete(4, "copy-on-write")
    session.sql(
        "CALL lake.system.expire_snapshots(table => 'shop.item', retain_last => 1, "
        "older_than => TIMESTAMP '2100-01-01 00:00:00')"
    )


PLACES = {
    "quarantined": (1, "parquet", "item_quarantine/data"),
    "hidden by a delete file": (2, "parquet", "shop/item/data"),
    "kept by a tag": (3, "parquet", "shop/item/data"),
    "a bound in a manifest": (4, "avro", "shop/item/metadata"),
    "landed": (5, "text", "shop/item/2.csv"),
    "a log": (6, "text", "logs/a_run.jsonl"),
    "a free page of SQLite": (7, "", "catalog.db"),
    "statistics in Delta's log": (8, "text", "_delta_log"),
    "archived": (9, "gzip", "archive/shop/1.tar.gz"),
    "a file of no snapshot": (10, "parquet", "never-committed"),
}


@pytest.mark.parametrize("where", PLACES)
def test_a_copy_is_found(opened: Project, where: str) -> None:
    number, kind, place = PLACES[where]
    found = find_value(opened, Wanted.of([planted(number)])).found
    assert any(kind in ("", one.kind) and place in one.path for one in found), [
        (f.kind, f.path) for f in found
    ]


def test_no_row_shows_those_of_the_table_and_what_was_not_planted_is_not_found(opened: Project) -> None:
    rows = opened.catalog.find(TableName("shop", "item")).scan().to_arrow()["name"].to_pylist()
    assert sorted(rows) == ["a", "b"]
    assert find_value(opened, Wanted.of([planted(11)])).found == []
