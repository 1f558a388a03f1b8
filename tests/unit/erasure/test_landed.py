"""Landed files lose the records of a subject and nothing else; the ledger knows them again."""

from __future__ import annotations

import gzip
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kedro_lakehouse.erasure.landed import erase_landed
from kedro_lakehouse.file_search.search import search_files
from kedro_lakehouse.file_search.wanted import Wanted
from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.unit

SUBJECT = "7001001"
WANTED = Wanted.of([SUBJECT], ["id"])
TABLE: dict[str, Any] = {"keys": ["id"], "order_by": ["n"], "subject": "id"}


@pytest.fixture
def bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A table of change-only files in a folder ``landing/t``."""

    def make(file_format: str, **options: Any) -> Any:
        from harness.project import TemporaryProject

        source = {"type": "changes", "path": "${globals:landing}", "pattern": "*", "file_format": file_format}
        table = TABLE | {"source": "s"} | options.pop("table", {})
        project = TemporaryProject.make(tmp_path / "p", {"s": source | options}, {"shop.t": table})
        monkeypatch.chdir(project.path)
        (project.landing / "t").mkdir()
        return Project.load(str(project.path / "conf"), None).bind(TableName("shop", "t"))

    return make


def erased(table: Any, content: bytes, name: str = "001") -> bytes:
    """The bytes of a landed file after an erasure; size and time are those of before."""
    file = Path(table.source_config.path) / "t" / name
    file.write_bytes(content)
    before = file.stat()
    (listed,) = table.open_source().files()
    changed = erase_landed(table, "id", WANTED, leave=frozenset())
    assert changed in ([], [listed.path])
    assert table.open_source().files() == [listed]
    assert file.stat().st_mtime_ns == before.st_mtime_ns
    assert [p.name for p in file.parent.iterdir()] == [name]
    assert bool(changed) == (file.read_bytes() != content)
    return file.read_bytes()


CSV = b'id,name,n\n1,"a, b",1\n7001001,"Anna, Q.",2\r\n2,7001001,3\n7001001,x,4'


def test_lines_of_csv_become_blank_by_their_column(bound: Callable[..., Any]) -> None:
    assert erased(bound("csv"), CSV) == (
        b'id,name,n\n1,"a, b",1\n' + b" " * 20 + b"\r\n2,7001001,3\n" + b" " * 11
    )


def test_a_csv_file_without_header_by_declared_columns(bound: Callable[..., Any]) -> None:
    table = bound("csv", csv={"header": False, "columns": ["n", "id"], "delimiter": ";", "quote": ""})
    assert erased(table, b"7001001;1\n1;7001001\n") == b"7001001;1\n" + b" " * 9 + b"\n"


def test_a_renamed_column_is_known_by_its_name_in_the_file(bound: Callable[..., Any]) -> None:
    table = bound("csv", table={"rename": {"No": "id"}})
    assert erased(table, b"No,n\n7001001,1\n3,2\n") == b"No,n\n" + b" " * 9 + b"\n3,2\n"


def test_lines_of_json(bound: Callable[..., Any]) -> None:
    lines = [{"id": 7001001, "n": 1}, {"id": 1, "n": 7001001}, {"id": 2, "by": "7001001"}, {"id": "7001001"}]
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    left = erased(bound("json"), text)
    assert [json.loads(line) for line in left.splitlines() if line.strip()] == lines[1:3]
    assert [len(line) for line in left.splitlines()] == [len(line) for line in text.splitlines()]


def test_what_gzip_packs_keeps_its_size(bound: Callable[..., Any]) -> None:
    packed = gzip.compress(CSV * 50, mtime=0)
    left = erased(bound("csv"), packed, "001.csv.gz")
    assert len(left) == len(packed)
    assert gzip.decompress(left).count(b"Anna") == 0
    assert gzip.decompress(left).count(b"a, b") == 50


@pytest.mark.parametrize("codec", ["snappy", "none", "zstd"])
def test_rows_of_parquet_go_and_every_reader_reads_the_rest(bound: Callable[..., Any], codec: str) -> None:
    out = pa.BufferOutputStream()
    ids = [*range(2000), 7001001, *range(2000, 4000), None]
    rows = pa.table({"id": pa.array(ids, pa.int64()), "n": range(len(ids)), "note": [f"n{i}" for i in ids]})
    pq.write_table(rows, out, row_group_size=1500, compression=codec)
    table = bound("parquet")
    content = out.getvalue().to_pybytes()
    assert len(erased(table, content, "001.parquet")) == len(content)
    file = Path(table.source_config.path) / "t/001.parquet"
    left = [row for row in rows.to_pylist() if row["id"] != 7001001]
    assert pq.read_table(file).to_pylist() == left
    assert pq.ParquetFile(file).schema_arrow.equals(rows.schema)
    with duckdb.connect() as base:
        assert base.execute(f"select count(*), sum(n) from '{file}'").fetchall() == [
            (len(left), sum(row["n"] for row in left))
        ]
    assert search_files([str(file)], WANTED).found == []


@pytest.mark.parametrize("dictionaries", [True, False, ["note"]])
def test_parquet_of_a_few_rows_has_room_for_the_rest(bound: Callable[..., Any], dictionaries: Any) -> None:
    """A file has dictionaries only where it had them: they would take the room of the row that goes."""
    out = pa.BufferOutputStream()
    rows = pa.table({"id": pa.array([7001001, 2], pa.int64()), "note": ["Anna", "Bob"]})
    pq.write_table(rows, out, compression="zstd", use_dictionary=dictionaries)
    content = out.getvalue().to_pybytes()
    table = bound("parquet")
    left = erased(table, content, "001.parquet")
    assert len(left) == len(content)
    assert pq.read_table(io.BytesIO(left)).to_pylist() == [{"id": 2, "note": "Bob"}]
    assert b"Anna" not in left


@pytest.mark.parametrize("content", [b"id,n\n1,2\n", b"", b"id,n\n"])
def test_a_file_without_the_subject_is_not_touched(bound: Callable[..., Any], content: bytes) -> None:
    assert erased(bound("csv"), content) == content


def test_records_of_several_lines_and_files_of_other_tables_stay(bound: Callable[..., Any]) -> None:
    table = bound("csv", csv={"multiline": True})
    assert erased(table, CSV) == CSV
    (file,) = table.open_source().files()
    assert erase_landed(table, "id", WANTED, leave=frozenset([file.path])) == []
