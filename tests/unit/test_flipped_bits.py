"""A flipped bit in what is looked at before Spark reads: the file is refused by name, or taken as it is."""

from __future__ import annotations

import collections
import gzip
import io
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kedro_lakehouse.config.sources import CsvOptions
from kedro_lakehouse.errors import UnreadableFileError
from kedro_lakehouse.names import TableName
from kedro_lakehouse.sources.files import LandedFile, shapes

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.unit

ROWS = 200


def parquet() -> bytes:
    written = io.BytesIO()
    rows = pa.table({"id": range(ROWS), "name": [f"n{i}" for i in range(ROWS)], "at": [1.5] * ROWS})
    pq.write_table(rows, written)
    return written.getvalue()


def packed() -> bytes:
    lines = "".join(f"{i},n{i},{i * 7}\n" for i in range(ROWS))
    return gzip.compress(f"id,name,price\n{lines}".encode(), mtime=0)


def flips(content: bytes, first: int, last: int) -> list[bytes]:
    """The content with one bit flipped, in each third byte of a part."""
    found = []
    for place in range(first, last, 3):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        found.append(bytes(changed))
    return found


def outcomes(contents: list[bytes], file: Path, file_format: str) -> collections.Counter[str]:
    counted: collections.Counter[str] = collections.Counter()
    for content in contents:
        file.write_bytes(content)
        landed = LandedFile(f"file://{file}", len(content), 0)
        try:
            shapes(
                [(landed, "changes")], file_format=file_format, options={"changes": CsvOptions()},
                table=TableName("a", "b"), headers={"changes": True}, fallback={},
            )  # fmt: skip
        except UnreadableFileError as error:
            counted[f"refused {error.file}"] += 1
        else:
            counted["looked at"] += 1
    return counted


def test_a_footer_of_parquet(tmp_path):
    content = parquet()
    footer = int.from_bytes(content[-8:-4], "little") + 8
    tried = flips(content, len(content) - footer, len(content))
    found = outcomes(tried, tmp_path / "a.parquet", "parquet")
    assert set(found) == {"refused a.parquet", "looked at"}
    assert found.total() == len(tried)


def test_a_packed_text(tmp_path):
    content = packed()
    tried = flips(content, 0, len(content))
    found = outcomes(tried, tmp_path / "a.csv.gz", "csv")
    assert set(found) == {"refused a.csv.gz", "looked at"}
    assert found.total() == len(tried)
