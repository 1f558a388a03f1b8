"""A double of Kinesis' client that follows its published rules where moto does not: resharding, expiry.

Sequence numbers are large and have gaps; a closed shard ends; records after a split go to its children; an
iterator for an expired number begins at the earliest record; pages may be empty; iterators expire.
"""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

FIRST = 49_590_338_271_490_256_608_559_692_538_361_571_095_921_575_989_136_588_898
HOURS = 24


@dataclass
class _Shard:
    id: str
    parents: tuple[str, ...] = ()
    is_closed: bool = False
    records: list[dict[str, Any]] = field(default_factory=list)


class ExpiredIteratorException(Exception):  # noqa: N818 - Kinesis' own name
    """An iterator was not used for five minutes."""


class KinesisDouble:
    """One stream, its clock, and the part of boto3's client that the source calls."""

    class exceptions:  # noqa: N801 - as boto3 names it
        ExpiredIteratorException = ExpiredIteratorException

    def __init__(self, *, page: int = 1_000_000, hiccups: Iterator[bool] | None = None) -> None:
        """Make a stream with one shard; ``hiccups`` say of each call whether its iterator has expired."""
        self.now = dt.datetime(2026, 11, 1, tzinfo=dt.UTC)
        self._page, self._hiccups, self._last = page, hiccups, FIRST
        self.calls = 0
        self.make_anew()

    def make_anew(self) -> None:
        """Delete the stream and make it again."""
        self.now += dt.timedelta(seconds=1)
        self.made, self.shards = self.now, [_Shard("shardId-000000000000")]

    @property
    def open(self) -> list[_Shard]:
        """The shards that take records."""
        return [shard for shard in self.shards if not shard.is_closed]

    def put(self, values: Sequence[bytes], partition: int = 0, key: str = "k") -> None:
        for value in values:
            self._last += 2**70 + 1
            self.now += dt.timedelta(milliseconds=1)
            self.open[partition].records.append(
                {
                    "SequenceNumber": str(self._last), "Data": value, "PartitionKey": key,
                    "ApproximateArrivalTimestamp": self.now,
                }
            )  # fmt: skip
        self.now += dt.timedelta(milliseconds=5)

    def add_partition(self) -> None:
        """Split the first open shard: it is closed, and two others follow it."""
        parent = self.open[0]
        parent.is_closed = True
        self._follow(parent, times=2)

    def merge(self) -> None:
        """Merge the first two open shards."""
        one, other = self.open[:2]
        one.is_closed = other.is_closed = True
        self._follow(one, other)

    def _follow(self, *parents: _Shard, times: int = 1) -> None:
        for _ in range(times):
            name = f"shardId-{len(self.shards):012}"
            self.shards.append(_Shard(name, tuple(parent.id for parent in parents)))

    def expire(self) -> None:
        """Let the retention period pass by."""
        self.now += dt.timedelta(hours=HOURS, minutes=1)

    def _kept(self, shard: _Shard) -> list[dict[str, Any]]:
        horizon = self.now - dt.timedelta(hours=HOURS)
        return [r for r in shard.records if r["ApproximateArrivalTimestamp"] >= horizon]

    # What the source calls.
    def describe_stream_summary(self, StreamName: str) -> dict[str, Any]:  # noqa: N803
        told = {"StreamCreationTimestamp": self.made, "RetentionPeriodHours": HOURS}
        return {"StreamDescriptionSummary": told | {"StreamName": StreamName}}

    def get_paginator(self, name: str) -> KinesisDouble:
        assert name == "list_shards"
        return self

    def paginate(self, StreamName: str) -> list[dict[str, Any]]:  # noqa: N803
        told = []
        for shard in self.shards:
            numbers = {"StartingSequenceNumber": str(FIRST)}
            if shard.is_closed:
                numbers["EndingSequenceNumber"] = str(self._last)
            parents = dict(zip(("ParentShardId", "AdjacentParentShardId"), shard.parents, strict=False))
            told.append({"ShardId": shard.id, "SequenceNumberRange": numbers, **parents})
        return [{"Shards": told[:1]}, {"Shards": told[1:]}]

    def get_shard_iterator(
        self, *, StreamName: str, ShardId: str, ShardIteratorType: str,  # noqa: N803
        StartingSequenceNumber: str = "0", Timestamp: float = 0.0,  # noqa: N803
    ) -> dict[str, Any]:  # fmt: skip
        kind, least = ShardIteratorType, int(StartingSequenceNumber)
        if kind == "AFTER_SEQUENCE_NUMBER":
            least += 1
        if kind != "AT_TIMESTAMP":
            assert not least or least >= FIRST, "a number that is not of this shard is refused"
        since = int(Timestamp * 1000) if kind == "AT_TIMESTAMP" else 0
        return {"ShardIterator": (ShardId, least, since)}

    def get_records(self, *, ShardIterator: tuple[str, int, int], Limit: int) -> dict[str, Any]:  # noqa: N803
        self.calls += 1
        if self._hiccups is not None and next(self._hiccups):
            raise ExpiredIteratorException
        name, least, since = ShardIterator
        shard = next(shard for shard in self.shards if shard.id == name)
        waiting = [
            r
            for r in self._kept(shard)
            if int(r["SequenceNumber"]) >= least
            and int(r["ApproximateArrivalTimestamp"].timestamp() * 1000) >= since
        ]
        # An empty page may come before the records.
        size = 0 if self.calls % 5 == 2 else min(Limit, self._page)
        page, rest = waiting[:size], waiting[size:]
        reached = int(page[-1]["SequenceNumber"]) + 1 if page else least
        told: dict[str, Any] = {"Records": page, "MillisBehindLatest": 1000 if rest else 0}
        if rest or not shard.is_closed:
            told["NextShardIterator"] = (name, reached, 0 if page else since)
        return told
