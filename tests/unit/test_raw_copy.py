"""Raw copies of streams: each record of a partition in one file, whatever is read again or breaks off."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedro_lakehouse.config.sources import KafkaSourceConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.erasure.find_value import find_value
from kedro_lakehouse.erasure.raw_copies import erase_copied
from kedro_lakehouse.errors import SourceUnreachableError
from kedro_lakehouse.file_search.wanted import Wanted
from kedro_lakehouse.names import TableName
from kedro_lakehouse.sources import raw_copy
from kedro_lakehouse.sources.kafka import KafkaSource
from kedro_lakehouse.sources.raw_copy import RawCopy
from kedro_lakehouse.sources.streams import Record, StreamRange

if TYPE_CHECKING:
    from kedro_lakehouse.sources.files import LandedFile

pytestmark = pytest.mark.unit

NOON = int(dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC).timestamp() * 1000)


@pytest.fixture(autouse=True)
def _as_a_new_process() -> None:
    raw_copy._held.clear()


def planned(first: int, end: int, identity: str = "id") -> LandedFile:
    found = StreamRange(stream="t", identity=identity, partition="3", first=first, end=end)
    return found.planned("kafka")


def records(first: int, end: int) -> list[Record]:
    """Records of a range; each seventh offset has none, as where a transaction ended."""
    return [
        Record("t:3", n, b"k", b"\xff%d" % n, NOON, (("h", b"\x00"), ("h", None)))
        for n in range(first, end)
        if n % 7 != 6
    ]


def take(copy: RawCopy, first: int, end: int, **named: str) -> list[Record]:
    return list(copy.copied(planned(first, end, **named), iter(records(first, end))))


def folder(copy: RawCopy) -> Path:
    return Path(copy.root, "t", "partition=3")


def held(copy: RawCopy) -> list[int]:
    """The offsets in all files, of each file in its order."""
    tables = [pq.read_table(path, partitioning=None) for path in sorted(folder(copy).iterdir())]
    return [place["row"] for table in tables for place in table["_position"].to_pylist()]


def test_a_file_holds_a_range_as_it_was_sent(tmp_path):
    copy = RawCopy(str(tmp_path), "shop.item")
    assert take(copy, 0, 5) == records(0, 5)
    (path,) = folder(copy).iterdir()
    assert path.name == "00000000000000000000-00000000000000000005-id.parquet"
    rows = pq.read_table(path, partitioning=None)
    assert rows.to_pylist()[3] == {
        "_position": {"file": "t:3", "row": 3}, "key": b"k", "value": b"\xff3",
        "timestamp": dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC),
        "headers": [{"key": "h", "value": b"\x00"}, {"key": "h", "value": None}],
    }  # fmt: skip


def test_what_is_read_again_is_written_once(tmp_path):
    copy = RawCopy(str(tmp_path), "shop.item")
    take(copy, 0, 9)
    (path,) = folder(copy).iterdir()
    before = path.stat()
    for _ in range(2):
        assert take(copy, 0, 9) == records(0, 9)
        raw_copy._held.clear()
    (again,) = folder(copy).iterdir()
    assert (again.stat().st_ino, again.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20), st.booleans(), st.booleans()), max_size=8))
def test_each_record_is_in_one_file_whatever_ranges_overlap(tmp_path_factory, ranges):
    copy = RawCopy(str(tmp_path_factory.mktemp("raw")), "shop.item")
    seen = set[int]()
    for first, length, is_new, by_workers in ranges:
        if is_new:
            raw_copy._held.clear()
        reader = copy.looked_at([planned(first, first + length)]) if by_workers else copy
        taken = take(reader, first, first + length)
        assert taken == records(first, first + length)
        seen |= {record.row for record in taken}
    found = held(copy) if seen else []
    assert sorted(found) == sorted(seen)
    assert not [path for path in Path(copy.root).rglob(".*") if path.is_file()]


def test_spans_that_touch_are_kept_as_one(tmp_path):
    copy = RawCopy(str(tmp_path), "shop.item")
    for first in range(0, 300, 3):
        take(copy, first, first + 3)
    assert list(raw_copy._held.values()) == [[(0, 300)]]


def test_nothing_is_seen_of_a_range_that_was_not_taken_whole(tmp_path):
    copy = RawCopy(str(tmp_path), "shop.item")

    def breaks() -> Any:
        yield from records(0, 6000)
        raise ConnectionError

    with pytest.raises(ConnectionError):
        list(copy.copied(planned(0, 9000), breaks()))
    left = copy.copied(planned(0, 9000), iter(records(0, 9000)))
    for _ in range(6000):
        next(left)
    left.close()
    assert list(folder(copy).iterdir()) == []
    take(copy, 0, 9)
    assert held(copy) == [r.row for r in records(0, 9)]


def test_what_a_kill_left_is_no_file_of_the_copy(tmp_path):
    copy = RawCopy(str(tmp_path), "shop.item")
    folder(copy).mkdir(parents=True)
    (folder(copy) / ".0123.part").write_bytes(b"PAR1")
    take(copy, 0, 5)
    assert len([path for path in folder(copy).iterdir() if not path.name.startswith(".")]) == 1


def test_of_two_who_write_at_once_the_first_is_kept(tmp_path):
    copy = RawCopy(str(tmp_path), "shop.item")
    other = copy.looked_at([planned(0, 5)])
    take(copy, 0, 5)
    (path,) = folder(copy).iterdir()
    before = path.read_bytes()
    list(other.copied(planned(0, 5), iter(records(0, 3))))
    assert [one.read_bytes() for one in folder(copy).iterdir()] == [before]


def test_a_topic_that_was_made_anew_has_files_of_its_own(tmp_path):
    copy = RawCopy(str(tmp_path), "shop.item")
    take(copy, 0, 5)
    take(copy, 0, 5, identity="new-id")
    assert len(list(folder(copy).iterdir())) == 2


def test_no_records_are_no_file(tmp_path):
    copy = RawCopy(str(tmp_path), "shop.item")
    assert list(copy.copied(planned(0, 5), iter(()))) == []
    assert not folder(copy).exists()


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "shop.item").write_text("a file")
    with pytest.raises(SourceUnreachableError, match="folder of raw copies") as caught:
        take(RawCopy(str(tmp_path), "shop.item"), 0, 5)
    assert "partition=3" in str(caught.value)


def test_other_stores_get_the_file_whole():
    copy = RawCopy("memory://raw", "shop.item")
    take(copy, 0, 5)
    raw_copy._held.clear()
    take(copy, 0, 9)
    import fsspec

    fs = fsspec.filesystem("memory")
    names = sorted(fs.ls("/raw/shop.item/t/partition=3", detail=False))
    assert [int(name.rpartition("/")[2].split("-")[0]) for name in names] == [0, 5]
    with fs.open(names[1]) as file:
        assert pq.ParquetFile(file).metadata.num_rows == 3  # of 5 to 8, offset 6 has none


def test_a_source_copies_what_it_reads_here(tmp_path, monkeypatch):
    config = KafkaSourceConfig(type="kafka", bootstrap_servers="nowhere:1", decoder="json", raw=str(tmp_path))
    source = KafkaSource(
        config, TableName("shop", "item"), TableConfig(source="shop", entity="t", keys=("id",))
    )
    monkeypatch.setattr(KafkaSource, "read", lambda _: lambda one: iter(records(0, 5)))
    lines = source.few_lines([planned(0, 5)])
    assert lines.num_rows == 5
    assert held(RawCopy(str(tmp_path), "shop.item")) == [0, 1, 2, 3, 4]


class Table:
    """What an erasure asks of a table."""

    def __init__(self, raw: str | None) -> None:
        self.source_config = KafkaSourceConfig(type="kafka", bootstrap_servers="nowhere:1", raw=raw)
        self.config = TableConfig(source="shop", entity="t", keys=("id",), rename={"mail": "email"})

    def __str__(self) -> str:
        return "shop.item"


def test_an_erasure_removes_records_that_name_the_subject(tmp_path):
    copy = RawCopy(str(tmp_path), "shop.item")
    values = [
        b'{"mail": "ada@example.org"}', b'{"after": {"mail": "ada@example.org"}}',
        b'{"other": "ada@example.org"}', b'{"mail": "grace@example.org"}',
        b"\x00\x01ada@example.org\xff", None,
    ]  # fmt: skip
    keys = [None, None, None, None, None, b"ada@example.org"]
    made = [Record("t:3", n, key, value) for n, (key, value) in enumerate(zip(keys, values, strict=True))]
    made.append(Record("t:3", 6, None, b"{}", None, (("by", b"ada@example.org"),)))
    list(copy.copied(planned(0, 7), iter(made)))
    list(copy.copied(planned(7, 9), iter([Record("t:3", 7, None, b'{"mail": "grace@example.org"}')])))
    wanted = Wanted.of(["ada@example.org"], ["email"])
    changed = erase_copied(Table(str(tmp_path)), "email", wanted)
    assert [Path(path).name[:20].lstrip("0") for path in changed] == [""]
    assert held(copy) == [2, 3, 7], "a column of another name is left to the search, which names the file"
    assert erase_copied(Table(str(tmp_path)), "email", wanted) == []
    assert erase_copied(Table(None), "email", wanted) == []
    assert erase_copied(Table("gs://bucket/raw"), "email", wanted) == []


class Declared:
    """What a search asks of a project."""

    def __init__(self, raw: Path) -> None:
        kafka = KafkaSourceConfig(type="kafka", bootstrap_servers="nowhere:1", raw=str(raw))
        self.declarations = type("D", (), {"sources": {"shop": kafka}, "tables": {}})
        self.lakehouse, self.logs = str(raw.parent / "lake"), str(raw.parent / "logs")
        self.maintenance = None


def test_a_search_reads_the_copies_and_not_the_folder_it_runs_in(tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "note.txt").write_text("ada@example.org")
    monkeypatch.chdir(elsewhere)
    raw = tmp_path / "raw"
    copy = RawCopy(str(raw), "shop.item")
    list(copy.copied(planned(0, 1), iter([Record("t:3", 0, None, b'{"mail": "ada@example.org"}')])))
    report = find_value(Declared(raw), Wanted.of(["ada@example.org"]))
    assert [Path(one.path).name for one in report.found] == [f"{0:020}-{1:020}-id.parquet"]
    assert [hit.place for one in report.found for hit in one.hits] == ["column value"]


def test_rows_are_of_one_schema_also_without_headers():
    bare = raw_copy._as_rows([Record("t:3", 0, None, None)])
    full = raw_copy._as_rows(records(0, 2))
    assert bare.schema == full.schema
    assert pa.concat_tables([bare, full]).num_rows == 3
