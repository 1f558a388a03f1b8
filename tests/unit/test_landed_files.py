"""Files that land while their folder is listed; whatever the clock of this machine says."""

from __future__ import annotations

import os
import time
from contextlib import nullcontext

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from fsspec.implementations.local import LocalFileSystem

from kedro_lakehouse.config.sources import CsvOptions
from kedro_lakehouse.errors import SourceNotFoundError, UnreadableFileError
from kedro_lakehouse.names import TableName
from kedro_lakehouse.sources.files import LandedFile, bounded, list_files, shapes

pytestmark = pytest.mark.unit

ITEM = TableName("shop", "item")


def land(folder, name, at, text="x"):
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(text)
    os.utime(folder / name, (at, at))


def names(folder, pattern="*.csv"):
    return [f.name for f in list_files(str(folder), [pattern], table=ITEM)]


@pytest.fixture
def meanwhile(monkeypatch):
    """Do something after the folder was listed for the first time, or look at what that listing gave."""

    def do(action):
        listings, find = [], LocalFileSystem.find

        def found(*given, **options):
            given = find(*given, **options)
            listings.append(given)
            return (action(given) or given) if len(listings) == 1 else given

        monkeypatch.setattr(LocalFileSystem, "find", found)
        return listings

    return do


@pytest.mark.parametrize("minutes", [-10, 10])
def test_a_clock_that_is_off_hides_no_file(tmp_path, monkeypatch, minutes):
    now = time.time()
    for name, seconds in {"a.csv": -1200, "b.csv": -1, "c.csv": 0}.items():
        land(tmp_path, name, now + seconds)
    monkeypatch.setattr(time, "time", lambda: now + 60 * minutes)
    assert names(tmp_path) == ["a.csv", "b.csv", "c.csv"]


@pytest.mark.parametrize("minutes", [-10, 10])
def test_a_file_that_lands_meanwhile_is_left_for_the_next_listing(tmp_path, monkeypatch, meanwhile, minutes):
    now = time.time()
    land(tmp_path, "a.csv", now - 60)
    monkeypatch.setattr(time, "time", lambda: now + 60 * minutes)
    meanwhile(lambda _: land(tmp_path, "b.csv", now))
    assert names(tmp_path) == ["a.csv"]
    assert names(tmp_path) == ["a.csv", "b.csv"]


def test_an_earlier_file_that_the_first_listing_missed_is_there(tmp_path, meanwhile):
    """As when folder 1 was read before its file landed, and folder 2 after its own, later one did."""
    land(tmp_path / "1", "early.csv", 1000)
    land(tmp_path / "2", "late.csv", 2000)
    meanwhile(lambda found: {k: v for k, v in found.items() if "early" not in k})
    assert names(tmp_path) == ["early.csv", "late.csv"]


def test_files_of_a_second_in_which_more_landed_meanwhile_wait_together(tmp_path, meanwhile):
    land(tmp_path, "a.csv", 1000)
    land(tmp_path, "b.csv", 2000)
    meanwhile(lambda _: land(tmp_path, "c.csv", 2000))
    assert names(tmp_path) == ["a.csv"]
    assert names(tmp_path) == ["a.csv", "b.csv", "c.csv"]


@pytest.mark.parametrize("at", [500, 1000, 3000])
def test_a_file_that_changes_meanwhile_is_left_for_the_next_listing(tmp_path, meanwhile, at):
    land(tmp_path, "a.csv", 1000)
    land(tmp_path, "b.csv", 2000)
    meanwhile(lambda _: land(tmp_path, "a.csv", at, "longer"))
    assert names(tmp_path) == ["b.csv"]
    assert names(tmp_path) == ["a.csv", "b.csv"]


def test_a_file_that_is_deleted_meanwhile_is_not_listed(tmp_path, meanwhile):
    land(tmp_path, "a.csv", 1000)
    land(tmp_path, "b.csv", 2000)
    meanwhile(lambda _: (tmp_path / "a.csv").unlink())
    assert names(tmp_path) == ["b.csv"]


def test_hidden_and_unfinished_files_are_passed_over(tmp_path):
    for name in (".a.csv", "_b.csv", "c.csv.tmp", "d.csv.part", ".d.csv.crc", "e.txt", "f.csv"):
        land(tmp_path, name, 1000)
    land(tmp_path / "_temporary", "g.csv", 1000)
    assert names(tmp_path) == ["f.csv"]
    assert names(tmp_path, "*") == ["e.txt", "f.csv"]


def test_a_batch_has_as_many_files_and_bytes_as_allowed_and_a_large_file_has_its_own():
    files = [LandedFile(str(n), size, 0) for n, size in enumerate([4, 4, 2, 4, 20, 1])]
    assert [[f.size for f in batch] for batch in bounded(files, 3, 10)] == [[4, 4, 2], [4], [20], [1]]
    assert [len(batch) for batch in bounded(files, 2, 100)] == [2, 2, 2]
    assert bounded([], 2, 100) == []


def test_an_empty_folder_is_listed_once_and_a_file_is_no_folder(tmp_path, meanwhile):
    listings = meanwhile(lambda _: land(tmp_path, "a.csv", 1000))
    assert names(tmp_path) == []
    assert len(listings) == 1
    with pytest.raises(SourceNotFoundError):
        names(tmp_path / "a.csv")


@pytest.mark.parametrize("unit", ["us", "ns"])
def test_times_in_nanoseconds_are_told_and_refused_within_a_column(tmp_path, unit):
    kind = pa.timestamp(unit)
    file = tmp_path / "a.parquet"
    pq.write_table(pa.table({"odd.name": pa.array([1], kind), "id": [1]}), file)
    landed, asked = LandedFile(f"file://{file}", 1, 1), {"options": {}, "headers": {}, "fallback": {}}
    (shape,) = shapes([(landed, "changes")], file_format="parquet", table=ITEM, **asked)
    assert shape.nanoseconds == ({"odd.name"} if unit == "ns" else set())
    pq.write_table(pa.table({"s": pa.array([{"at": 1}], pa.struct({"at": kind}))}), file)
    looked = (
        nullcontext() if unit == "us" else pytest.raises(UnreadableFileError, match=r"nanoseconds.*s\.at")
    )
    with looked:
        shapes([(landed, "changes")], file_format="parquet", table=ITEM, **asked)


def test_text_in_another_encoding_is_told_with_the_option(tmp_path):
    file = tmp_path / "a.csv"
    file.write_bytes("id,name\n1,Jürgen\n".encode("latin-1"))
    landed = (LandedFile(f"file://{file}", 1, 1), "changes")
    options = {"options": {"changes": CsvOptions()}, "headers": {"changes": True}, "fallback": {}}
    with pytest.raises(UnreadableFileError, match=r"encoding UTF-8\).*Correct csv\.encoding in sources\.yml"):
        shapes([landed], file_format="csv", table=ITEM, **options)


@pytest.mark.parametrize(
    ("first", "said"),
    [
        (b"PAR1\xff\xfe", r"it is parquet, not csv.*file_format"),
        (b"\x1f\x8b\x08\xff", r"compressed with gzip.*csv\.gz.*csv\.compression"),
        (b"PK\x03\x04\xff", "a zip archive"),
    ],
)
def test_the_first_bytes_of_a_file_that_is_no_text_say_what_it_is(tmp_path, first, said):
    file = tmp_path / "a.csv"
    file.write_bytes(first + b"\n1,2\n")
    landed = (LandedFile(f"file://{file}", 1, 1), "changes")
    options = {"options": {"changes": CsvOptions()}, "headers": {"changes": True}, "fallback": {}}
    with pytest.raises(UnreadableFileError, match=said):
        shapes([landed], file_format="csv", table=ITEM, **options)
