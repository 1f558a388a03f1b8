"""Values that lie in files of each kind are found, where they lie; what only looks like them is not."""

from __future__ import annotations

import bz2
import datetime as dt
import gzip
import io
import json
import lzma
import os
import sqlite3
import tarfile
import zipfile
from decimal import Decimal
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pyarrow import orc

from kedro_lakehouse.file_search.readers import hits_in
from kedro_lakehouse.file_search.search import NAME, search_files
from kedro_lakehouse.file_search.wanted import Wanted

CUSTOMER = Wanted.of(["59289", "Zoë Nakamura-Ødegård"], ["customerid"])
LINE = b'{"customerid": 59289, "city": "Zuerich"}\n'


def places_in(file: Path, wanted: Wanted = CUSTOMER) -> dict[str, int]:
    report = search_files([str(file)], wanted)
    assert report.files == 1
    return {hit.place: hit.count for one in report.found for hit in one.hits}


def parquet(folder: Path, **columns: pa.Array) -> Path:
    pq.write_table(pa.table(columns), folder / "rows.parquet")
    return folder / "rows.parquet"


@pytest.mark.parametrize(
    ("name", "values", "count"),
    [
        ("customerid", pa.array([1, 59289, None, 59289], pa.int32()), 2),
        ("customerid", pa.array([1, 2, 3], pa.int64()), 0),
        ("amount", pa.array([59289, 59289], pa.int64()), 0),
        ("customerid", pa.array([Decimal("59289.00")], pa.decimal128(12, 2)), 1),
        ("customerid", pa.array([59289.0, float("nan")]), 1),
        ("customerid", pa.array(["59289", "159289", None]), 1),
        ("note", pa.array(["order of 59289.", "x59289", "592890"]), 1),
        ("note", pa.array(["Zoë Nakamura-Ødegård", "zoë"]).dictionary_encode(), 1),
        ("note", pa.array([b"\x0059289\x01", None], pa.binary()), 1),
        ("who", pa.array([{"customerid": 59289, "n": 59289}, None]), 1),
        ("who", pa.array([[{"customerid": 59289}], [], None]), 1),
        ("facts", pa.array([[("name", "Zoë Nakamura-Ødegård")]], pa.map_(pa.string(), pa.string())), 1),
        ("is_new", pa.array([True, False]), 0),
        ("col-3f1f0c4e-8f3e-4c55-9d0a-0a1b2c3d4e5f", pa.array([59289], pa.int64()), 1),
    ],
)
def test_values_in_columns_of_each_type(tmp_path: Path, name: str, values: pa.Array, count: int) -> None:
    assert sum(places_in(parquet(tmp_path, **{name: values})).values()) == count


def test_dates_and_times_are_compared_by_type(tmp_path: Path) -> None:
    born = Wanted.of(["1980-02-29"])
    days = [dt.date(1980, 2, 29), dt.date(1980, 3, 1)]
    times = pa.array(days, pa.date32()).cast(pa.timestamp("us"))
    file = parquet(tmp_path, dateofbirth=pa.array([dt.date(1980, 2, 29), None]), at=times)
    assert places_in(file, born) == {"column dateofbirth": 1, "column at": 1}


def test_all_row_groups_are_read_but_those_whose_statistics_exclude_a_number(tmp_path: Path) -> None:
    numbers = pa.table({"customerid": pa.array(range(100_000)), "amount": pa.array([59289] * 100_000)})
    pq.write_table(numbers, tmp_path / "rows.parquet", row_group_size=1000)
    assert places_in(tmp_path / "rows.parquet") == {"column customerid": 1}


def test_the_footer_of_a_parquet_file(tmp_path: Path) -> None:
    table = pa.table({"a": [1]}).replace_schema_metadata({"source": "extract of Zoë Nakamura-Ødegård"})
    pq.write_table(table, tmp_path / "rows.parquet")
    assert set(places_in(tmp_path / "rows.parquet")) >= {"footer, source"}


def test_orc(tmp_path: Path) -> None:
    orc.write_table(pa.table({"customerid": [1, 59289], "note": ["a", "b"]}), tmp_path / "rows.orc")
    assert places_in(tmp_path / "rows.orc") == {"column customerid": 1}


def packed(kind: str) -> bytes:
    out = io.BytesIO()
    if kind == "gzip":
        return gzip.compress(LINE)
    if kind == "bzip2":
        return bz2.compress(LINE)
    if kind == "xz":
        return lzma.compress(LINE)
    if kind == "zstd":
        with pa.CompressedOutputStream(out, "zstd") as stream:
            stream.write(LINE)
            stream.close()
            return out.getvalue()
    if kind == "zip":
        with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as bundle:
            bundle.writestr("a.json", LINE)
        return out.getvalue()
    with tarfile.open(fileobj=out, mode="w") as bundle:
        for name, content in (("a.json", LINE), ("b.json.gz", gzip.compress(LINE))):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            bundle.addfile(entry, io.BytesIO(content))
    return out.getvalue()


@pytest.mark.parametrize("kind", ["gzip", "bzip2", "xz", "zip", "tar"])
def test_packed_files_are_unpacked(tmp_path: Path, kind: str) -> None:
    (tmp_path / "landed").write_bytes(packed(kind))
    found = places_in(tmp_path / "landed")
    assert sum(found.values()) == (2 if kind == "tar" else 1)


def test_zstd(tmp_path: Path) -> None:
    with pa.OSFile(str(tmp_path / "landed"), "wb") as raw, pa.CompressedOutputStream(raw, "zstd") as out:
        out.write(LINE)
    assert places_in(tmp_path / "landed") == {"text": 1}


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ('{"customerid": 59289}', 1),
        ('{"customerid":"59289"}', 1),
        ('{"amount": 59289}', 0),
        ('{"note": "59289"}', 1),
        ('{"minValues": {"col-3f1f0c4e-8f3e-4c55-9d0a-0a1b2c3d4e5f":59289}}', 1),
        ('{"stats":"{\\"minValues\\":{\\"customerid\\":59289}}"}', 1),
        ('{"stats":"{\\"minValues\\":{\\"amount\\":59289}}"}', 0),
        ("59289,Zoe,12\n1,2,59289", 2),
        ("159289 592890 x59289 59289x 59289_", 0),
        (json.dumps({"name": "Zoë Nakamura-Ødegård"}), 1),
        (json.dumps({"name": "Zoë Nakamura-Ødegård"}, ensure_ascii=False), 1),
        ("name=Zo%C3%AB%20Nakamura-%C3%98deg%C3%A5rd", 1),
    ],
)
def test_text(tmp_path: Path, text: str, count: int) -> None:
    (tmp_path / "a.json").write_text(text)
    assert sum(places_in(tmp_path / "a.json").values()) == count


def test_text_of_other_encodings(tmp_path: Path) -> None:
    for encoding in ("latin-1", "utf-16"):
        (tmp_path / "a.csv").write_bytes("x,Zoë Nakamura-Ødegård,y".encode(encoding))
        assert sum(places_in(tmp_path / "a.csv").values()) == 1, encoding


def test_a_value_across_chunks_counts_once(tmp_path: Path) -> None:
    filler = b"x" * 63 + b"\n"
    before = filler * (8 * 2**20 // 64)
    for cut in range(-1, 8):
        (tmp_path / "large.log").write_bytes(before[: len(before) - 3 + cut] + b" 59289 " + filler * 10)
        assert places_in(tmp_path / "large.log") == {"text": 1}, cut


def test_deleted_rows_of_sqlite(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    base = sqlite3.connect(file)
    base.execute("PRAGMA secure_delete = OFF")
    base.execute("CREATE TABLE t (a TEXT, b TEXT)")
    base.executemany("INSERT INTO t VALUES (?, ?)", [("x" * 50, f"id=7000{i}") for i in range(50)])
    base.execute("INSERT INTO t VALUES ('owner', '59289')")
    base.commit()
    assert places_in(file) == {"pages": 1}
    base.execute("DELETE FROM t WHERE a = 'owner'")
    base.commit()
    base.close()
    assert places_in(file) == {"pages": 1}


def test_a_uuid_that_contains_the_digits_is_no_hit(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\0abc/00059289-1234-4abc-8def-0123456789ab.parquet\0")
    assert places_in(tmp_path / "f") == {}


def manifest(folder: Path, low: bytes, high: bytes) -> Path:
    """A file with the parts of a manifest that a search looks at, as Iceberg's specification has them."""
    bound = {
        "type": "record",
        "name": "b",
        "fields": [{"name": "key", "type": "int"}, {"name": "value", "type": "bytes"}],
    }
    bounds = {"type": "array", "items": bound}
    data = {
        "type": "record",
        "name": "data_file",
        "fields": [
            {"name": "file_path", "type": "string"},
            {"name": "lower_bounds", "type": bounds},
            {"name": "upper_bounds", "type": {"type": "array", "items": "b"}},
        ],
    }
    schema = {
        "type": "record",
        "name": "entry",
        "fields": [{"name": "status", "type": "int"}, {"name": "data_file", "type": data}],
    }
    fields = [
        {"id": 1, "name": "customerid", "type": "long", "required": False},
        {"id": 2, "name": "name", "type": "string", "required": False},
        {"id": 3, "name": "amount", "type": "long", "required": False},
    ]
    table = {"type": "struct", "schema-id": 0, "fields": fields}
    number = (59289).to_bytes(8, "little")
    row = {
        "status": 2,
        "data_file": {
            "file_path": "warehouse/crm/t/data/customerid=59289/59289.parquet",
            "lower_bounds": [
                {"key": 1, "value": number},
                {"key": 2, "value": low},
                {"key": 3, "value": number},
            ],
            "upper_bounds": [{"key": 2, "value": high}],
        },
    }
    file = folder / "manifest.avro"
    with file.open("wb") as out:
        fastavro.writer(out, schema, [row], codec="deflate", metadata={"schema": json.dumps(table)})
    return file


def test_bounds_in_a_manifest(tmp_path: Path) -> None:
    cut = "Zoë Nakamura-Øde"
    assert places_in(manifest(tmp_path, cut.encode(), b"zz")) == {
        "data_file.file_path": 1,
        "lower_bounds of customerid": 1,
        "lower_bounds of name": 1,
    }
    raised = cut[:-1] + chr(ord(cut[-1]) + 1)
    assert places_in(manifest(tmp_path, b"A", raised.encode()))["upper_bounds of name"] == 1


def test_a_partition_in_a_path(tmp_path: Path) -> None:
    file = tmp_path / "t" / "customerid=59289" / "part-0.parquet"
    file.parent.mkdir(parents=True)
    pq.write_table(pa.table({"a": [1]}), file)
    report = search_files([str(tmp_path)], CUSTOMER)
    assert [hit.place for one in report.found for hit in one.hits] == [NAME]


def test_a_broken_file_is_searched_as_bytes_and_named(tmp_path: Path) -> None:
    (tmp_path / "torn.parquet").write_bytes(b"PAR1\0 59289 \0")
    (tmp_path / "empty.parquet").write_bytes(b"PAR1\0 other \0")
    (tmp_path / "nothing").write_bytes(b"")
    report = search_files([str(tmp_path)], CUSTOMER)
    assert [Path(one.path).name for one in report.found] == ["torn.parquet"]
    assert [Path(one.path).name for one in report.unsure] == ["empty.parquet"]


def test_nested_places_are_searched_once_and_missing_ones_hold_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".hidden.json").write_bytes(LINE)
    report = search_files([str(tmp_path), str(tmp_path / "a"), str(tmp_path / "none")], CUSTOMER)
    assert (report.files, len(report.found)) == (1, 1)


def test_links_are_followed_once_and_pipes_are_left(tmp_path: Path) -> None:
    lake, elsewhere = tmp_path / "lake", tmp_path / "elsewhere"
    (lake / "orders").mkdir(parents=True)
    (elsewhere / "day").mkdir(parents=True)
    (elsewhere / "day/a.txt").write_text("id 59289\n")
    (elsewhere / "b.txt").write_text("id 59289\n")
    (lake / "shared").symlink_to(elsewhere)
    (lake / "one.txt").symlink_to(elsewhere / "b.txt")
    (lake / "gone").symlink_to(tmp_path / "nowhere")
    (elsewhere / "back").symlink_to(lake)
    (lake / "orders/again").symlink_to(lake)
    os.mkfifo(lake / "pipe")
    report = search_files([str(lake)], Wanted(["59289"]))
    below = [one.path.removeprefix(f"{lake}/") for one in report.found]
    assert {"shared/day/a.txt", "shared/b.txt", "one.txt"} <= set(below)
    assert len(below) == len(set(below))
    assert not report.unsure


SIGNS = "ab.1 *é\n驚|\\"


@given(
    st.lists(st.text(SIGNS, min_size=1, max_size=3), min_size=1, max_size=120, unique=True),
    st.lists(st.one_of(st.none(), st.text(SIGNS, max_size=6)), min_size=1, max_size=30),
)
def test_texts_of_a_column_are_those_that_hold_a_value_one_by_one(
    values: list[str], texts: list[str]
) -> None:
    wanted = Wanted.of(values)
    assume(wanted.values)
    expected = sum(text is not None and wanted.holds(text) for text in texts)
    as_bytes = [None if text is None else text.encode() for text in texts]
    in_bytes = sum(data is not None and wanted.holds_bytes(data) for data in as_bytes)
    for column, count in (
        (pa.array(texts, pa.string()), expected),
        (pa.array(texts, pa.large_string()), expected),
        (pa.array(texts, pa.string_view()), expected),
        (pa.array(as_bytes, pa.binary()), in_bytes),
    ):
        file = io.BytesIO()
        pq.write_table(pa.table({"c": column}), file)
        file.seek(0)
        _, hits = hits_in(file, wanted)
        assert sum(hit.count for hit in hits if hit.place == "column c") == count


def test_bytes_of_a_fixed_width_and_very_many_values(tmp_path: Path) -> None:
    many = [f"person{n}@example.org" for n in range(5_000)]
    rows = {
        "fixed": pa.array([b"59289 ", b"592890"], pa.binary(6)),
        "mail": ["To: person4999@example.org", "To: person5000@example.org"],
    }
    pq.write_table(pa.table(rows), tmp_path / "a.parquet")
    report = search_files([str(tmp_path)], Wanted.of([*many, "59289"]))
    assert not report.unsure
    (found,) = report.found
    assert {hit.place: hit.count for hit in found.hits} == {"column fixed": 2, "column mail": 1}
