"""Kinesis as a source, on a double that follows the published rules of resharding, expiry and paging."""

from __future__ import annotations

import datetime as dt
import random
from typing import Any

import pytest
from harness.kinesis import KinesisDouble

from kedro_lakehouse.config.sources import KinesisSourceConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.errors import OffsetsGoneError
from kedro_lakehouse.names import TableName
from kedro_lakehouse.sources import kinesis
from kedro_lakehouse.sources.base import holds_records
from kedro_lakehouse.sources.kinesis import KinesisSource
from kedro_lakehouse.testing.streams import StreamSourceContract

pytestmark = pytest.mark.unit

TABLE = TableConfig(source="clicks", entity="clicks", keys=("id",))


@pytest.fixture
def feed(monkeypatch: pytest.MonkeyPatch) -> KinesisDouble:
    made = KinesisDouble()
    _play(made, monkeypatch)
    return made


def _play(made: KinesisDouble, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kinesis, "client", lambda *_, **__: made)
    monkeypatch.setattr(kinesis, "_now", lambda: int(made.now.timestamp() * 1000))


def opened(**declared: Any) -> KinesisSource:
    config = KinesisSourceConfig(type="kinesis", decoder="dms-json", **declared)
    return KinesisSource(config, TableName("clicks", "made"), TABLE)


class TestContract(StreamSourceContract):
    """The contract of all stream sources."""

    @pytest.fixture
    def feed(self, monkeypatch: pytest.MonkeyPatch) -> KinesisDouble:
        made = KinesisDouble()
        _play(made, monkeypatch)
        return made

    def source(self, feed: Any, **declared: Any) -> KinesisSource:
        return opened(**declared)


def take(known: list[Any], **declared: Any) -> list[Any]:
    """What one batch takes."""
    ranges = opened(**declared).after(known)
    known += ranges
    read = opened().read()
    return [record for one in ranges for record in read(one)]


def test_a_parent_is_read_to_its_end_before_its_children(feed):
    feed.put([b"a", b"b", b"c"])
    feed.add_partition()
    feed.put([b"d"], 0)
    feed.put([b"e"], 1)
    known: list[Any] = []
    batches = []
    while found := take(known, max_records=2):
        batches.append([record.value for record in found])
    taken = [value for batch in batches for value in batch]
    assert sorted(taken) == [b"a", b"b", b"c", b"d", b"e"]
    assert taken[:3] == [b"a", b"b", b"c"]


def test_merged_shards_wait_for_both_parents(feed):
    feed.add_partition()
    feed.put([b"left"] * 3, 0)
    feed.put([b"right"] * 3, 1)
    feed.merge()
    feed.put([b"after"])
    known: list[Any] = []
    taken: list[bytes] = []
    while found := take(known, max_records=2):
        taken += [record.value for record in found]
    assert taken[-1] == b"after"
    assert sorted(taken) == [b"after", *[b"left"] * 3, *[b"right"] * 3]


def test_a_shard_that_was_idle_for_longer_than_records_are_kept_goes_on(feed):
    known: list[Any] = []
    feed.put([b"a"])
    assert len(take(known)) == 1
    for _ in range(6):
        feed.now += dt.timedelta(hours=13)
        assert opened().lag(known).is_due
        assert take(known) == []
        assert not opened().lag(known).is_due
    feed.put([b"b"])
    assert [record.value for record in take(known)] == [b"b"]


def test_records_that_came_while_nobody_looked_for_too_long_are_told_as_lost(feed):
    known: list[Any] = []
    feed.put([b"a"])
    take(known)
    feed.now += dt.timedelta(hours=13)
    take(known)  # notes that nothing came
    feed.put([b"lost"])
    feed.now += dt.timedelta(hours=30)
    feed.put([b"b"])
    with pytest.raises(OffsetsGoneError, match="shardId-000000000000"):
        take(known)


def test_a_clock_that_is_ahead_costs_no_record(feed, monkeypatch):
    ahead = dt.timedelta(minutes=20)
    monkeypatch.setattr(kinesis, "_now", lambda: int((feed.now + ahead).timestamp() * 1000))
    known: list[Any] = []
    assert take(known) == []
    feed.put([b"a"])
    assert [record.value for record in take(known)] == [b"a"]
    feed.now += dt.timedelta(hours=13)
    take(known)
    feed.put([b"b"])
    assert [record.value for record in take(known)] == [b"b"]


def test_a_batch_of_a_shard_has_no_more_than_its_limit(feed):
    feed.put([b"a"] * 7)
    known: list[Any] = []
    sizes = []
    while found := take(known, max_records=3):
        sizes.append(len(found))
    assert sizes == [3, 3, 1]


def test_a_pause_within_the_time_that_records_are_kept_loses_nothing(feed):
    known: list[Any] = []
    feed.put([b"a"])
    take(known)
    feed.now += dt.timedelta(hours=23)
    feed.put([b"b"])
    assert [record.value for record in take(known)] == [b"b"]


def test_a_start_before_what_is_kept_is_the_earliest_record(feed):
    feed.put([b"gone"])
    feed.expire()
    feed.put([b"a"])
    start = feed.now - dt.timedelta(days=40)
    known = list(opened(start=start).before_start())
    assert [record.value for record in take(known, start=start)] == [b"a"]


def test_a_start_is_a_time(feed):
    feed.put([b"before"])
    start = feed.now
    feed.put([b"after"])
    known = list(opened(start=start).before_start())
    assert [record.value for record in take(known, start=start)] == [b"after"]


def test_what_comes_while_a_run_reads_is_left_for_the_next(feed, monkeypatch):
    feed.put([b"a"])
    monkeypatch.setattr(feed, "_page", 1)
    calls, real = [], feed.get_records

    def busy(**asked: Any) -> Any:
        calls.append(asked)
        assert len(calls) < 50, "a run would never end"
        feed.put([b"more", b"more"])
        return real(**asked)

    monkeypatch.setattr(feed, "get_records", busy)
    assert [r for r in opened().after([]) if holds_records(r)]


@pytest.mark.parametrize("seed", range(60))
def test_every_record_is_taken_once_and_in_the_order_of_its_key(seed, monkeypatch):
    chance = random.Random(seed)  # noqa: S311 - a case, no secret
    hiccups = iter(lambda: chance.random() < 0.1, None)
    made = KinesisDouble(page=chance.choice((1, 3, 10)), hiccups=hiccups)
    _play(made, monkeypatch)
    known: list[Any] = []
    put, taken = 0, []
    for _ in range(chance.randint(5, 40)):
        what = chance.random()
        if what < 0.5:
            count = chance.randint(1, 6)
            made.put([b"%d" % n for n in range(put, put + count)], chance.randrange(len(made.open)))
            put += count
        elif what < 0.6:
            made.add_partition()
        elif what < 0.7 and len(made.open) > 1:
            made.merge()
        elif what < 0.8:
            made.now += dt.timedelta(hours=chance.randint(1, 10))
            taken += take(known)
        else:
            taken += take(known, max_records=chance.randint(1, 8))
    while found := take(known, max_records=5):
        taken += found
    assert sorted(int(record.value) for record in taken) == list(range(put))
    by_shard: dict[str, list[str]] = {}
    for record in taken:
        by_shard.setdefault(record.file.rpartition(":")[0], []).append(record.file)
    assert all(places == sorted(places) for places in by_shard.values())
    # Whoever did not read them while planning finds the same records in the same ranges.
    read, there = opened().read(), [one for one in known if not opened().gone([one])]
    again = [record for one in there for record in read(one)]
    names = {one.name for one in known if one not in there}
    assert {r for r in taken if r.file.rpartition(":")[0] not in names} <= set(again) <= set(taken)
