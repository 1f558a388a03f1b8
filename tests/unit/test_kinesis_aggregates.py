"""Aggregates of the Kinesis Producer Library, on bytes that two other implementations made.

``tests/data/streams/kinesis-aggregates.jsonl`` has those of aws-kinesis-agg 1.2.3, which packs by Google's
Protocol Buffers, and of aiokpl 0.2.0, which has an encoder of its own; with hash keys also tags.
"""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

import pytest
from harness.kinesis import KinesisDouble
from hypothesis import given
from hypothesis import strategies as st

from kedro_lakehouse.config.sources import KinesisSourceConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.decoders.metadata import split_off
from kedro_lakehouse.names import TableName
from kedro_lakehouse.sources import kinesis
from kedro_lakehouse.sources.aggregates import MAGIC, user_records
from kedro_lakehouse.sources.kinesis import KinesisSource

pytestmark = pytest.mark.unit

FILE = Path(__file__).resolve().parents[1] / "data/streams/kinesis-aggregates.jsonl"
MADE = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]
ROWS = base64.b64decode(MADE[0]["bytes"])


@pytest.mark.parametrize("made", MADE, ids=lambda m: f"{m['made_by']}, {m['case']}, {m['hash_keys']}")
def test_what_others_pack_is_unpacked(made):
    expected = [(key, base64.b64decode(data)) for key, data in made["records"]]
    assert user_records(base64.b64decode(made["bytes"])) == expected


def test_a_record_like_any_other_is_none():
    for data in (b"", b"{}", MAGIC[:3], MAGIC, MAGIC + bytes(16), b"x" + ROWS):
        assert user_records(data) is None


@given(st.integers(0, len(ROWS) - 1), st.integers(1, 255))
def test_a_byte_that_was_changed_breaks_it(at, by):
    assert user_records(ROWS[:at] + bytes([ROWS[at] ^ by]) + ROWS[at + 1 :]) is None


@given(st.integers(0, len(ROWS) - 1))
def test_a_cut_breaks_it(end):
    assert user_records(ROWS[:end]) is None


def signed(message: bytes) -> bytes:
    return MAGIC + message + hashlib.md5(message, usedforsecurity=False).digest()


@given(st.binary(max_size=60))
def test_whatever_is_signed_gives_records_or_none(message):
    found = user_records(signed(message))
    assert found is None or all(isinstance(data, bytes) for _, data in found)


@pytest.mark.parametrize(
    "message",
    [
        b"\x1a\x04\x08\x00\x1a\x00",  # a record whose partition key is not in the table
        b"\x0a\x01k\x1a\x02\x08\x00",  # a record without data
        b"\x0a\x01k\x1a\x02\x1a\x00",  # a record without an index
        b"\x0a\x05k",  # longer than the message
        b"\x08\x01\x0b",  # a group, which proto2 gave up
        b"\x18" + b"\xff" * 11,  # a number that does not end
        b"\x0a\x01\xff\x1a\x04\x08\x00\x1a\x00",  # a partition key that is no text
        b"\x1a",
    ],
)
def test_what_is_not_as_described_is_broken(message):
    assert user_records(signed(message)) is None


def test_fields_that_are_not_known_are_passed_over():
    known = b"\x0a\x01k\x1a\x05\x08\x00\x1a\x01v"
    more = b"\x28\x07" + b"\x35\x00\x00\x00\x00" + b"\x39" + bytes(8) + b"\x42\x01x"
    assert user_records(signed(more + known + more)) == [("k", b"v")]


def opened(monkeypatch: pytest.MonkeyPatch, feed: KinesisDouble, **declared: Any) -> KinesisSource:
    monkeypatch.setattr(kinesis, "client", lambda *_, **__: feed)
    monkeypatch.setattr(kinesis, "_now", lambda: int(feed.now.timestamp() * 1000))
    config = KinesisSourceConfig(type="kinesis", decoder="json", **declared)
    table = TableConfig(source="clicks", entity="clicks", keys=("id",))
    return KinesisSource(config, TableName("clicks", "made"), table)


def test_each_user_record_has_a_place_of_its_own_whoever_reads_it(monkeypatch):
    feed = KinesisDouble()
    feed.put([b'{"id": 0}', ROWS, b'{"id": 9}', ROWS[:-1]], key="outer")
    told = {"partition_key": "k", "sequence_number": "n"}
    source = opened(monkeypatch, feed, metadata=told)
    ranges = source.after([])
    found = [record for one in ranges for record in source.read()(one)]
    assert [record.row for record in found] == [0, 0, 1, 2, 0, 0]
    assert len({(record.file, record.row) for record in found}) == 6
    assert len({record.file for record in found}) == 4
    assert [record.key for record in found][:5] == [b"outer", b"user-1", b"user-2", b"user-1", b"outer"]
    assert found[-1].value == ROWS[:-1], "a broken aggregate stays as it was sent"
    lines, facts = split_off(source.few_lines(ranges))
    assert [json.loads(text)["id"] for text in lines["value"].to_pylist()[:-1]] == [0, 1, 2, 3, 9]
    assert lines["value"].to_pylist()[-1].startswith("base64:84mawg")
    assert facts is not None
    assert facts["k"].to_pylist()[1:4] == ["user-1", "user-2", "user-1"]
    again = opened(monkeypatch, feed, metadata=told)
    assert [record for one in ranges for record in again.read()(one)] == found


def test_an_aggregate_is_one_record_to_the_limits_of_a_batch(monkeypatch):
    feed = KinesisDouble()
    feed.put([ROWS, ROWS, b'{"id": 9}'])
    source = opened(monkeypatch, feed, max_records=1)
    assert source.lag([]).records == 3
    (first,) = source.after([])
    assert len(list(source.read()(first))) == 3
    (second,) = opened(monkeypatch, feed, max_records=1).after([first])
    assert second != first
