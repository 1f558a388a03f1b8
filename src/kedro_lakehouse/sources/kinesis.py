"""Streams of Amazon Kinesis: a batch is a range of sequence numbers of each shard.

Kinesis does not tell where a shard ends, so what is new is found by reading it, up to the limits of a batch.
Sequence numbers have gaps, so they do not show that records have expired. Times do: each range has the time
up to which its shard was read. Twice in a stream's retention period a run also notes this time for a shard in
which nothing came.

Source:
    Amazon Kinesis Data Streams, developer guide and API reference: shard iterators, resharding, retention.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from functools import cached_property, partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kedro_lakehouse.aws import client
from kedro_lakehouse.config.sources import KinesisSourceConfig
from kedro_lakehouse.errors import OffsetsGoneError, SourceUnreachableError, TopicReplacedError
from kedro_lakehouse.sources.aggregates import user_records
from kedro_lakehouse.sources.base import Lag
from kedro_lakehouse.sources.streams import Record, RecordStream, StreamRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kedro_lakehouse.sources.files import LandedFile

SCHEME: Final = "kinesis"
_DIGITS: Final = 56
"""The most digits of a sequence number."""
_PAGE: Final = 10_000
"""The most records that Kinesis gives at once."""
_GLANCE: Final = 1_000
"""So many records of a shard are looked at to tell what waits."""
_KEPT_BYTES: Final = 32_000_000
"""Records of so many bytes are kept from finding what is new until they are read."""
_HOUR: Final = 3_600_000


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Shard:
    """A shard, and those that were split or merged into it: they are read to their ends before it."""

    id: str
    parents: tuple[str, ...]
    is_closed: bool


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Stream:
    """A stream's identity, how long it keeps records (milliseconds), and its shards, parents first."""

    identity: str
    kept: int
    shards: Sequence[_Shard]


@dataclasses.dataclass(frozen=True)
class _Mark:
    """Up to where a shard is known: the last sequence number, and the time in milliseconds; 0 is unknown.

    ``start`` is the time at which reading begins, where a declaration says so. ``until`` is this machine's
    time: it may tell that a day has gone by, but not which records were read.
    """

    last: int = 0
    until: int = 0
    start: int = 0

    def iterator(self, first: int = 0) -> dict[str, Any]:
        """Where Kinesis begins to read after this mark; ``first`` is where a table built anew begins."""
        if self.last:
            return _after(self.last)
        if self.start:
            return {"ShardIteratorType": "AT_TIMESTAMP", "Timestamp": self.start / 1000}
        return _at(first) if first else {"ShardIteratorType": "TRIM_HORIZON"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Taken:
    """Records of a shard, the time up to which these are all, and whether the shard has no more now."""

    records: Sequence[Mapping[str, Any]]
    until: int
    is_all: bool


class KinesisSource(RecordStream[KinesisSourceConfig]):
    """The records of one table in a stream."""

    config_model: ClassVar[type[KinesisSourceConfig]] = KinesisSourceConfig
    _kept: Mapping[str, Sequence[Record]] = MappingProxyType({})
    """The records of ranges that were found last, by their paths, if these are few."""

    @cached_property
    def _client(self) -> Any:
        return client("kinesis", **self._settings)

    @property
    def _settings(self) -> dict[str, Any]:
        return {"region": self._config.region, **self.credentials()}

    @cached_property
    def _found(self) -> _Stream:
        """The stream and its shards as they are now."""
        with _answers(str(self._name), self._stream):
            answer = self._client.describe_stream_summary(StreamName=self._stream)
            pages = self._client.get_paginator("list_shards").paginate(StreamName=self._stream)
            shards = [shard for page in pages for shard in page["Shards"]]
        there = {shard["ShardId"] for shard in shards}
        found = [
            _Shard(
                id=shard["ShardId"],
                parents=tuple(
                    shard[p] for p in ("ParentShardId", "AdjacentParentShardId") if shard.get(p) in there
                ),
                is_closed="EndingSequenceNumber" in shard["SequenceNumberRange"],
            )
            for shard in sorted(shards, key=lambda one: str(one["ShardId"]))  # later shards have later ids
        ]
        summary = answer["StreamDescriptionSummary"]
        return _Stream(
            identity=str(int(summary["StreamCreationTimestamp"].timestamp() * 1000)),
            kept=summary["RetentionPeriodHours"] * _HOUR,
            shards=found,
        )

    # What is new.
    def before_start(self) -> list[LandedFile]:
        """Up to which time the declared ``start`` leaves out the records of each shard."""
        start = self._config.start
        if start == "earliest":
            return []
        now = _now()
        # A start before what the stream keeps is the earliest record that is there.
        until = now if start == "latest" else max(int(start.timestamp() * 1000), now - self._found.kept)
        return [self._range(shard.id, 0, 0, until) for shard in self._found.shards]

    def after(
        self, published: Iterable[LandedFile], begun: Iterable[LandedFile] = (), times: int = 1
    ) -> list[LandedFile]:
        """The next range of each shard that has records after the published ranges; see ``StreamSource``.

        Raises:
            OffsetsGoneError: Records after the published ones have expired, or may have.
            TopicReplacedError: The stream was deleted and made again.
            SourceUnreachableError: Kinesis does not answer, or there is no such stream.
        """
        marks, firsts = self._marks(published), self._firsts(begun)
        shards = self._found.shards
        room, kept, unread = self._config.max_records * times, 0, set[str]()
        ranges = []
        few = dict[str, list[Record]]()
        for count, shard in enumerate(shards):
            if unread.intersection(shard.parents):
                unread.add(shard.id)
                continue
            mark = marks.get(shard.id, _Mark())
            limit = max(1, room // (len(shards) - count))
            taken = self._next(shard, mark, firsts.get(shard.id, 0), limit)
            if not taken.is_all:
                unread.add(shard.id)
            room -= len(taken.records)
            if not taken.records and not self._is_due(shard, mark):
                continue
            first = end = mark.last + 1  # nothing came: the range says until when
            if taken.records:
                first, end = _number(taken.records[0]), _number(taken.records[-1]) + 1
            found = self._range(shard.id, first, end, taken.until, _bytes(taken.records))
            ranges.append(found)
            kept += found.size
            if kept <= _KEPT_BYTES:
                few[found.path] = list(_records(self._stream, shard.id, taken.records))
        self._kept = few
        return sorted(ranges)

    def lag(
        self,
        published: Iterable[LandedFile],
        begun: Iterable[LandedFile] = (),
        *,
        timed: bool = False,  # noqa: ARG002 - the time comes with the record
    ) -> Lag:
        """What waits after the published ranges; the records are counted where they are few.

        Raises:
            OffsetsGoneError, TopicReplacedError, SourceUnreachableError: As ``after``.
        """
        marks, firsts = self._marks(published), self._firsts(begun)
        found, due = list[_Taken](), False
        for shard in self._found.shards:
            mark = marks.get(shard.id, _Mark())
            taken = self._next(shard, mark, firsts.get(shard.id, 0), _GLANCE)
            due = due or (not taken.records and self._is_due(shard, mark))
            if taken.records:
                found.append(taken)
        since = min((_arrived(taken.records[0]) for taken in found), default=None)
        return Lag(
            partitions=len(found),
            records=sum(len(t.records) for t in found) if all(t.is_all for t in found) else None,
            bytes=sum(_bytes(taken.records) for taken in found),
            seconds=None if since is None else max(_now() - since, 0) / 1000,
            is_due=due,
        )

    def gone(self, planned: Sequence[LandedFile]) -> list[str]:
        """The names of the ranges that the stream does not hold any more."""
        shards = {shard.id: shard for shard in self._found.shards}
        gone = []
        for file in planned:
            one = StreamRange.of(file)
            if one.first == one.end:
                continue
            shard = shards.get(one.partition)
            if shard is None or one.identity != self._found.identity or not self._has(shard, one.first):
                gone.append(file.name)
        return gone

    def read(self) -> Callable[[LandedFile], Iterator[Record]]:
        """Reads a range; what was read to find it is kept, if it is not much."""
        kept = self._kept
        elsewhere = partial(_read, settings=self._settings, table=str(self._name))

        def read(planned: LandedFile) -> Iterator[Record]:
            return iter(kept[planned.path]) if planned.path in kept else elsewhere(planned)

        return read if kept else elsewhere

    def _marks(self, published: Iterable[LandedFile]) -> dict[str, _Mark]:
        marks = dict[str, _Mark]()
        for one in map(StreamRange.of, published):
            if one.identity != self._found.identity or one.stream != self._stream:
                raise TopicReplacedError(table=self._name, topic=self._stream)
            held = marks.get(one.partition, _Mark())
            marks[one.partition] = _Mark(
                last=max(held.last, one.end - 1),
                until=max(held.until, one.until),
                start=held.start if one.end else max(held.start, one.until),
            )
        return marks

    def _firsts(self, begun: Iterable[LandedFile]) -> dict[str, int]:
        """Where each shard began, if the table is built anew."""
        firsts = dict[str, int]()
        for one in map(StreamRange.of, begun):
            if one.identity == self._found.identity and one.first < one.end:
                firsts[one.partition] = min(one.first, firsts.get(one.partition, one.first))
        return firsts

    def _range(self, shard: str, first: int, end: int, until: int, size: int = 0) -> LandedFile:
        """Records as the ledger holds them; none where ``first`` is ``end``, and 0 for a declared start."""
        found = StreamRange(
            stream=self._stream, identity=self._found.identity, partition=shard,
            first=first, end=end, size=size, until=until,
        )  # fmt: skip
        return found.planned(SCHEME)

    def _next(self, shard: _Shard, mark: _Mark, first: int, limit: int) -> _Taken:
        """The records of a shard after a mark; refuses where records may have come and expired since then."""
        taken = self._take(shard, mark.iterator(first), limit)
        is_old = 0 < mark.until < _now() - self._found.kept
        if taken.records and is_old and not (mark.last and self._has(shard, mark.last)):
            name = f"{self._stream}:{shard.id}"
            raise OffsetsGoneError(table=self._name, partition=name, wanted=mark.last, earliest=None)
        return taken

    def _take(self, shard: _Shard, where: Mapping[str, Any], limit: int) -> _Taken:
        """The next records of a shard, up to ``limit`` of them or the bytes of a batch."""
        begun, taken, size = _now(), list[Any](), 0
        for page in _Pages(self._client, self._stream, str(self._name)).of(shard.id, where, limit):
            if page.is_last and len(taken) + len(page.records) <= limit:
                return _Taken(records=[*taken, *page.records], until=begun, is_all=True)
            taken += page.records[: limit - len(taken)]
            size += _bytes(page.records)
            is_new = bool(taken) and _arrived(taken[-1]) > begun  # a run reads what was there when it began
            if is_new or len(taken) >= limit or size >= self._config.max_bytes:
                break
        return _Taken(records=taken, until=_arrived(taken[-1]) if taken else begun, is_all=False)

    def _is_due(self, shard: _Shard, mark: _Mark) -> bool:
        """Whether to note that nothing came into a shard, before the last record that was read expires."""
        return not shard.is_closed and _now() - mark.until > self._found.kept // 2

    def _has(self, shard: _Shard, number: int) -> bool:
        """Whether the stream still holds a record."""
        taken = self._take(shard, _at(number), 1)
        return bool(taken.records) and _number(taken.records[0]) == number


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Page:
    records: Sequence[Mapping[str, Any]]
    is_last: bool


def _at(number: int) -> dict[str, Any]:
    return {"ShardIteratorType": "AT_SEQUENCE_NUMBER", "StartingSequenceNumber": str(number)}


def _after(number: int) -> dict[str, Any]:
    return {"ShardIteratorType": "AFTER_SEQUENCE_NUMBER", "StartingSequenceNumber": str(number)}


@dataclasses.dataclass(frozen=True)
class _Pages:
    """Reads the shards of a stream, page by page."""

    kinesis: Any
    stream: str
    table: str

    def of(self, shard: str, where: Mapping[str, Any], limit: int = _PAGE) -> Iterator[_Page]:
        """Pages of a shard until nothing more is there; an empty one does not mean that nothing follows.

        An iterator expires after five minutes; then reading goes on after the last record.
        """
        place, iterator = dict(where), None
        with _answers(self.table, self.stream):
            while True:
                if iterator is None:
                    asked = {"StreamName": self.stream, "ShardId": shard, **place}
                    iterator = self.kinesis.get_shard_iterator(**asked)["ShardIterator"]
                try:
                    page = self.kinesis.get_records(ShardIterator=iterator, Limit=min(limit, _PAGE))
                except self.kinesis.exceptions.ExpiredIteratorException:
                    iterator = None
                    continue
                records, iterator = page["Records"], page.get("NextShardIterator")
                if records:
                    place = _after(_number(records[-1]))
                # A page with records may say that none follow, when more came in the same millisecond.
                is_last = iterator is None or (not records and page.get("MillisBehindLatest", 0) == 0)
                yield _Page(records=records, is_last=is_last)
                if is_last:
                    return


def _read(planned: LandedFile, *, settings: Mapping[str, Any], table: str) -> Iterator[Record]:
    """The records of a range, by a client of its own."""
    wanted = StreamRange.of(planned)
    if wanted.first == wanted.end:
        return
    expected, last = wanted.first, wanted.end - 1
    pages = _Pages(client("kinesis", **settings), wanted.stream, table)
    for page in pages.of(wanted.partition, _at(wanted.first)):
        for record in page.records:
            number = _number(record)
            if expected and number != expected:
                break
            expected = 0
            yield from _records(wanted.stream, wanted.partition, [record])
            if number == last:
                return
    raise OffsetsGoneError(table=table, partition=wanted.name, wanted=expected or last, earliest=None)


def _records(stream: str, shard: str, taken: Sequence[Mapping[str, Any]]) -> Iterator[Record]:
    """Records as they came; of an aggregate the user records, numbered within it."""
    for one in taken:
        # A sequence number is no bigint: it is part of the text, with as many digits each time, so that texts
        # are ordered as the numbers are.
        place, came = f"{stream}:{shard}:{_number(one):0{_DIGITS}}", _arrived(one)
        data = bytes(one["Data"])
        packed = user_records(data)
        found = [(str(one["PartitionKey"]), data)] if packed is None else packed
        for number, (key, value) in enumerate(found):
            yield Record(place, number, key.encode(), value or None, came)


def _number(record: Mapping[str, Any]) -> int:
    return int(record["SequenceNumber"])


def _bytes(records: Sequence[Mapping[str, Any]]) -> int:
    return sum(len(record["Data"]) for record in records)


def _arrived(record: Mapping[str, Any]) -> int:
    """When a record came, in milliseconds since the epoch."""
    return int(record["ApproximateArrivalTimestamp"].timestamp() * 1000)


def _now() -> int:
    return int(time.time() * 1000)


@contextlib.contextmanager
def _answers(table: str, stream: str) -> Iterator[None]:
    """Report that Kinesis does not answer, or refuses."""
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError) as error:
        raise SourceUnreachableError(table=table, place=f"stream {stream}", detail=str(error)) from error
