"""How many rows a landed file has at most, without decoding one."""

import gzip

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kedro_lakehouse.config.sources import CsvOptions
from kedro_lakehouse.sources.files import LandedFile
from kedro_lakehouse.sources.row_counts import most_rows

pytestmark = pytest.mark.unit


def count(path, file_format, *, header=True, size=None):
    file = LandedFile(f"file://{path}", path.stat().st_size if size is None else size, 0)
    return most_rows(file, file_format, CsvOptions(), header=header)


def test_a_footer_tells_the_rows_of_parquet(tmp_path):
    pq.write_table(pa.table({"id": range(7)}), tmp_path / "a.parquet")
    assert count(tmp_path / "a.parquet", "parquet") == 7


@pytest.mark.parametrize(
    ("text", "header", "rows"),
    [("id\n1\n2\n", True, 2), ("id\n1\n2", True, 2), ("1\n2\n", False, 2), ("id\n", True, 0), ("", True, 0)],
)
def test_lines_are_counted_with_and_without_header_and_last_line_end(tmp_path, text, header, rows):
    (tmp_path / "a.csv").write_text(text)
    assert count(tmp_path / "a.csv", "csv", header=header) == rows


def test_a_line_end_in_a_value_makes_more_of_it(tmp_path):
    (tmp_path / "a.csv").write_text('id,note\n1,"a\nb"\n')
    assert count(tmp_path / "a.csv", "csv") == 2


def test_compressed_lines_are_counted_and_those_of_json_have_no_header(tmp_path):
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(b'{"a": 1}\n{"a": 2}\n'))
    assert count(tmp_path / "a.json.gz", "json") == 2


def test_what_cannot_be_read_or_is_not_cheap_is_not_known(tmp_path):
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    (tmp_path / "a.csv.gz").write_bytes(b"no gzip")
    (tmp_path / "a.csv").write_text("id\n1\n")
    assert count(tmp_path / "a.parquet", "parquet") is None
    assert count(tmp_path / "a.csv.gz", "csv") is None
    assert count(tmp_path / "a.csv", "csv", size=2**30) is None
    assert count(tmp_path / "a.csv", "bson") is None
