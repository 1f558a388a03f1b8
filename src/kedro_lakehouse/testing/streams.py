"""The contract of a stream source, without Spark: subclass ``StreamSourceContract`` for each source.

What needs a session is beyond it: ``lines`` of a subclass of ``RecordStream`` follows from ``read``.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Protocol

import pytest

from kedro_lakehouse.errors import OffsetsGoneError, TopicReplacedError
from kedro_lakehouse.session.line import is_spark3
from kedro_lakehouse.sources.base import StreamSource, holds_records, lies_in
from kedro_lakehouse.sources.remembered import Extremes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.sources.files import LandedFile
    from kedro_lakehouse.sources.streams import Record, RecordStream


class Feed(Protocol):
    """A stream that a test fills."""

    def put(self, values: Sequence[bytes], partition: int = 0) -> None:
        """Write records into the n-th of the partitions that take records now."""

    def add_partition(self) -> None:
        """Let there be one more partition, by whatever way the stream has."""

    def expire(self) -> None:
        """Let all records that there are now expire; the time in which a stream keeps them passes by."""

    def make_anew(self) -> None:
        """Delete the stream, and make it again under its name with one partition."""


class StreamSourceContract:
    """Each test takes a feed with one partition; ``source`` opens it anew, as each run does."""

    @pytest.fixture
    def feed(self) -> Feed:
        """A new stream."""
        raise NotImplementedError

    def source(self, feed: Feed, **declared: Any) -> RecordStream[Any]:
        """A source of that stream, with these keys of its declaration, such as ``max_records``."""
        raise NotImplementedError

    # What a run does.
    def taken(
        self, feed: Feed, known: list[LandedFile], begun: Sequence[LandedFile] = (), **declared: Any
    ) -> list[Record]:
        """Take batch after batch until none is left, as a run does; ``known`` grows by their ranges."""
        records = list[Any]()
        while ranges := self.source(feed, **declared).after(known, begun):
            known += ranges
            if not any(map(holds_records, ranges)):
                break
            records += self.records(feed, ranges, **declared)
        return records

    def records(self, feed: Feed, ranges: Sequence[LandedFile], **declared: Any) -> list[Record]:
        """The records of ranges, read by a source that did not find them."""
        read = self.source(feed, **declared).read()
        return [record for one in ranges for record in read(one)]

    # The cases.
    def test_it_is_a_stream_source(self, feed: Feed) -> None:
        """It has every method of the protocol."""
        assert isinstance(self.source(feed), StreamSource)
        assert self.source(feed).gives == "ranges"

    def test_each_record_is_taken_once_whatever_the_size_of_batches(self, feed: Feed) -> None:
        """Batches are contiguous: what one leaves, the next takes."""
        known = list[Any]()
        values = [b"%d" % number for number in range(25)]
        feed.put(values[:10])
        found = self.taken(feed, known, max_records=4)
        feed.put(values[10:])
        found += self.taken(feed, known, max_records=7)
        assert [record.value for record in found] == values
        assert not [r for r in self.source(feed).after(known) if holds_records(r)]

    def test_records_have_places_of_their_own_in_their_ranges(self, feed: Feed) -> None:
        """``_position`` tells a record, its order in its partition, and the range that it is in."""
        known = list[Any]()
        feed.put([b"%d" % number for number in range(12)])
        found = self.taken(feed, known, max_records=5)
        places = [(record.file, record.row) for record in found]
        assert sorted(places) == places
        assert len(set(places)) == len(places)
        assert all(any(lies_in(file, one) for one in known) for file, _ in places)

    def test_a_range_gives_the_same_records_again(self, feed: Feed) -> None:
        """A run that finishes another one's plan reads what was planned, and no record more."""
        feed.put([b"a", b"b", b"c"])
        ranges = self.source(feed).after([])
        first = self.records(feed, ranges)
        feed.put([b"d"])
        assert self.records(feed, ranges) == first
        assert [record.value for record in first] == [b"a", b"b", b"c"]
        assert self.source(feed).gone(ranges) == []

    def test_few_records_are_read_without_spark(self, feed: Feed) -> None:
        """What this process reads of a range are the records that a worker reads."""
        feed.put([b'{"id": 1}', b"\xff", b"text"])
        source = self.source(feed)
        ranges = source.after([])
        lines = source.few_lines(ranges)
        if is_spark3():
            assert lines is None
            return
        assert lines is not None
        assert lines["value"].to_pylist() == ['{"id": 1}', "base64:/w==", "text"]
        places = [(place["file"], place["row"]) for place in lines["_position"].to_pylist()]
        assert places == [(record.file, record.row) for record in self.records(feed, ranges)]
        assert set(lines["__file"].to_pylist()) == {one.name for one in ranges}

    def test_of_many_published_ranges_their_ends_are_enough(self, feed: Feed) -> None:
        """A loop that has published thousands of ranges tells a source those that end last."""
        known = list[Any]()
        for number in range(4):
            feed.put([b"%d" % number, b"%d" % -number])
            self.taken(feed, known, max_records=1)
        feed.put([b"new"])
        short = Extremes()
        short.add(known)
        source = self.source(feed)
        assert len(short.last) < len(known)
        whole = [record.value for one in source.after(known, known) for record in source.read()(one)]
        cut = [record.value for one in source.after(short.last, short.first) for record in source.read()(one)]
        assert cut == whole == [b"new"]
        again = [r.value for one in source.after([], short.first) for r in source.read()(one)]
        assert again == [r.value for one in source.after([], known) for r in source.read()(one)]

    def test_what_waits_is_told(self, feed: Feed) -> None:
        """Lag tells partitions, records and since when they wait."""
        known = list[Any]()
        assert self.source(feed).lag(known, timed=True).partitions == 0
        feed.put([b"a", b"b", b"c"])
        lag = self.source(feed).lag(known, timed=True)
        assert (lag.partitions, lag.records) == (1, 3)
        assert lag.bytes > 0
        assert lag.seconds is None or lag.seconds >= 0
        self.taken(feed, known)
        lag = self.source(feed).lag(known, timed=True)
        assert (lag.partitions, lag.records, lag.seconds) == (0, 0, None)

    def test_a_new_partition_begins_at_its_first_record(self, feed: Feed) -> None:
        """Also if the declaration says ``latest``: it means what was there when the table began."""
        known = list[Any]()
        feed.put([b"old"])
        known += self.source(feed, start="latest").before_start()
        feed.add_partition()
        feed.put([b"new"], 0)
        feed.put([b"too"], 1)
        found = self.taken(feed, known, start="latest")
        assert Counter(record.value for record in found) == Counter([b"new", b"too"])

    def test_latest_leaves_out_what_is_there(self, feed: Feed) -> None:
        """A table that starts at the latest record takes what comes afterwards."""
        feed.put([b"old"])
        known = list(self.source(feed, start="latest").before_start())
        assert self.source(feed, start="latest").lag(known).partitions == 0
        feed.put([b"new"])
        assert [r.value for r in self.taken(feed, known, start="latest")] == [b"new"]

    def test_lost_records_are_told(self, feed: Feed) -> None:
        """Records that expired before a batch took them are not passed over in silence."""
        known = list[Any]()
        feed.put([b"a"])
        self.taken(feed, known)
        feed.put([b"lost"])
        feed.expire()
        feed.put([b"b"])
        with pytest.raises(OffsetsGoneError):
            self.source(feed).after(known)
        with pytest.raises(OffsetsGoneError):
            self.source(feed).lag(known)

    def test_an_expired_range_is_gone(self, feed: Feed) -> None:
        """A range cannot be read again when its records have expired; the error says so."""
        feed.put([b"a", b"b"])
        ranges = self.source(feed).after([])
        feed.expire()
        feed.put([b"c"])
        assert self.source(feed).gone(ranges) == [one.name for one in ranges]
        with pytest.raises(OffsetsGoneError):
            self.records(feed, ranges)

    def test_a_stream_made_anew_is_another_one(self, feed: Feed) -> None:
        """Its positions mean other records."""
        known = list[Any]()
        feed.put([b"a"])
        self.taken(feed, known)
        feed.make_anew()
        feed.put([b"b"])
        with pytest.raises(TopicReplacedError):
            self.source(feed).after(known)

    def test_a_table_built_anew_begins_where_it_began(self, feed: Feed) -> None:
        """What a table left out at its begin stays left out."""
        feed.put([b"old"])
        known = list(self.source(feed, start="latest").before_start())
        feed.put([b"a", b"b"])
        self.taken(feed, known, start="latest")
        begun = [one for one in known if holds_records(one) and self.records(feed, [one])[0].value != b"old"]
        assert [r.value for r in self.taken(feed, [], begun, start="latest")] == [b"a", b"b"]

    def test_records_may_be_large_empty_or_no_text(self, feed: Feed) -> None:
        """Bytes arrive as they were sent; nothing at all is a tombstone."""
        values = [b"x" * 900_000, b"\xff\x00\xfe", b"{}"]
        feed.put(values)
        assert [r.value for r in self.taken(feed, [])] == values
