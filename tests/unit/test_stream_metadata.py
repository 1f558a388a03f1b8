"""What streams tell of records beside their values: how it is declared, and the columns that it becomes."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import types as T

from kedro_lakehouse.config.sources import KafkaSourceConfig, KinesisSourceConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.config.validation import validated
from kedro_lakehouse.decoders.metadata import few_with_metadata, split_off
from kedro_lakehouse.decoders.plain_json import NotPlainError
from kedro_lakehouse.decoders.records import Columns
from kedro_lakehouse.errors import ConfigurationError
from kedro_lakehouse.names import TableName
from kedro_lakehouse.sources.kafka import KafkaSource
from kedro_lakehouse.sources.kinesis import KinesisSource
from kedro_lakehouse.sources.streams import Record

pytestmark = pytest.mark.unit

NOON = dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)
MILLIS = int(NOON.timestamp() * 1000)
ALL = {
    "key": "message_key", "timestamp": "stored_at", "partition": "part", "offset": "at",
    "headers": {"trace": "trace_id", "more": "raw_header"},
}  # fmt: skip
RECORDS = [
    Record("t:3", 7, b"a", b"{}", MILLIS, (("trace", b"one"), ("trace", b"two"), ("more", b"\xff"))),
    Record("t:3", 8, None, b"{}", None, (("trace", None),)),
    Record("t:3", 9, b"\xff\x00", b"{}", MILLIS),
]


def kafka(told: Any, **table: Any) -> KafkaSource:
    declared = {"type": "kafka", "bootstrap_servers": "nowhere:1", "decoder": "json", "metadata": told}
    config = validated(KafkaSourceConfig, declared, "sources.yml", "shop")
    return KafkaSource(
        config, TableName("shop", "t"), TableConfig(source="shop", entity="t", keys=("id",), **table)
    )


def lines(source: Any, records: list[Record], monkeypatch: pytest.MonkeyPatch) -> pa.Table:
    """The lines of records that a source reads here."""
    monkeypatch.setattr(type(source), "_read_few", lambda _, planned: [("t:3", records)])
    return source._looked_here([]).lines


def test_columns_of_kafka(monkeypatch):
    source = kafka(ALL, types={"raw_header": "binary"})
    kinds = {
        "message_key": T.StringType(), "stored_at": T.TimestampType(), "part": T.IntegerType(),
        "at": T.LongType(), "trace_id": T.StringType(), "raw_header": T.BinaryType(),
    }  # fmt: skip
    assert source.metadata_kinds() == kinds
    found, facts = split_off(lines(source, RECORDS, monkeypatch))
    assert facts is not None
    assert found["_position"].to_pylist() == [{"file": "t:3", "row": n} for n in (7, 8, 9)]
    assert facts.drop_columns("_position").to_pylist() == [
        {"message_key": "a", "stored_at": NOON, "part": 3, "at": 7, "trace_id": "two", "raw_header": b"\xff"},
        {"message_key": None, "stored_at": None, "part": 3, "at": 8, "trace_id": None, "raw_header": None},
        {"message_key": "base64:/wA=", "stored_at": NOON, "part": 3, "at": 9, "trace_id": None,
         "raw_header": None},
    ]  # fmt: skip


def test_a_key_of_bytes_is_declared_by_its_type(monkeypatch):
    source = kafka({"key": "k"}, types={"renamed": "BINARY"}, rename={"k": "renamed"})
    _, facts = split_off(lines(source, RECORDS, monkeypatch))
    assert facts is not None
    assert facts["k"].to_pylist() == [b"a", None, b"\xff\x00"]


def test_columns_of_kinesis(monkeypatch):
    told = {"partition_key": "k", "arrival_time": "came", "shard": "s", "sequence_number": "n"}
    config = KinesisSourceConfig(type="kinesis", decoder="json", metadata=told)
    source = KinesisSource(
        config, TableName("shop", "t"), TableConfig(source="shop", entity="t", keys=("id",))
    )
    record = Record("t:shardId-000000000001:00017", 0, b"user", b"{}", MILLIS)
    _, facts = split_off(lines(source, [record], monkeypatch))
    assert facts is not None
    (row,) = facts.drop_columns("_position").to_pylist()
    assert row == {"k": "user", "came": NOON, "s": "shardId-000000000001", "n": "00017"}


def test_without_the_key_lines_are_as_before(monkeypatch):
    source = kafka({})
    made = lines(source, RECORDS, monkeypatch)
    assert source.metadata_kinds() == {}
    assert split_off(made) == (made, None)


def test_facts_follow_their_events_whatever_the_decoder_left_out(monkeypatch):
    source = kafka(ALL)
    found, facts = split_off(lines(source, RECORDS, monkeypatch))
    kept = pa.table({"_position": found["_position"].take(pa.array([2, 0])), "id": [1, 2]})
    types: dict[str, T.DataType] = {"at": T.LongType(), "key": T.StringType(), "id": T.LongType()}
    columns = Columns(types=types, rename={"message_key": "key"})
    events = few_with_metadata(kept, facts, source.metadata_kinds(), columns)
    assert events.drop_columns("_position").to_pylist() == [
        {"id": 1, "at": 9, "key": "base64:/wA="}, {"id": 2, "at": 7, "key": "a"},
    ]  # fmt: skip


def test_a_header_becomes_the_declared_type_or_spark_reads_it(monkeypatch):
    source = kafka({"headers": {"trace": "n"}})
    columns = Columns(types={"n": T.IntegerType()})

    def read(*texts: bytes) -> list[Any]:
        records = [Record("t:3", n, None, b"{}", None, (("trace", text),)) for n, text in enumerate(texts)]
        found, facts = split_off(lines(source, records, monkeypatch))
        return few_with_metadata(found, facts, source.metadata_kinds(), columns)["n"].to_pylist()

    assert read(b"7", b"-1") == [7, -1]
    with pytest.raises(NotPlainError):
        read(b"7", b"many")


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"time": "at"}, "'time' is not a known key"),
        ({"key": "_order"}, "'_order' is reserved"),
        ({"key": "__op"}, "'__op' is reserved"),
        ({"key": "k", "headers": {"trace": "K"}}, "two facts are to be the column 'K'"),
        ({"headers": {"trace": ""}}, "headers"),
    ],
)
def test_what_cannot_be_declared_is_refused(told, said):
    with pytest.raises(ConfigurationError, match=said):
        kafka(told)


def test_a_change_is_not_keyed_by_what_kafka_tells():
    declared = {"bootstrap_servers": "nowhere:1", "metadata": {"key": "k"}}
    table = TableConfig(source="shop", entity="t", keys=("named",), rename={"k": "named"})
    found = KafkaSourceConfig(type="kafka", **declared).table_problem(table)
    assert found is not None
    assert (found.key, "'named'" in found.problem) == ("keys", True)
    rows = KafkaSourceConfig(type="kafka", decoder="json", **declared)
    ordered = TableConfig(source="shop", entity="t", keys=("named",), rename={"k": "named"}, order_by=("at",))
    assert rows.table_problem(ordered) is None
