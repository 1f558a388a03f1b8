"""Kafka keeps the contract of all stream sources, on a real broker."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("confluent_kafka", reason="`make test-streams` installs the extra kafka")
from confluent_kafka import TopicPartition
from confluent_kafka.admin import OffsetSpec

from kedro_lakehouse.config.sources import KafkaSourceConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.names import TableName
from kedro_lakehouse.sources.kafka import KafkaSource
from kedro_lakehouse.testing.streams import StreamSourceContract

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.kafka import Broker

pytestmark = pytest.mark.streams

_numbers = itertools.count()


class Topic:
    """A topic that a test fills."""

    def __init__(self, broker: Broker) -> None:
        self.broker, self.name, self.partitions = broker, f"contract.t{next(_numbers)}", 1
        broker.make_topic(self.name)

    def put(self, values: Sequence[bytes], partition: int = 0) -> None:
        self.broker.send(self.name, [{"value": v, "key": "k", "partition": partition} for v in values])

    def add_partition(self) -> None:
        self.partitions += 1
        self.broker.add_partitions(self.name, self.partitions)
        time.sleep(0.5)

    def expire(self) -> None:
        for number in range(self.partitions):
            place = TopicPartition(self.name, number)
            found = self.broker.admin.list_offsets({place: OffsetSpec.latest()})
            place.offset = found[place].result(30).offset
            self.broker.admin.delete_records([place])[TopicPartition(self.name, number)].result(30)

    def make_anew(self) -> None:
        self.broker.delete_topic(self.name)
        self.broker.make_topic(self.name)


class TestKafka(StreamSourceContract):
    """The contract."""

    @pytest.fixture
    def feed(self, broker: Broker) -> Topic:
        return Topic(broker)

    def source(self, feed: Any, **declared: Any) -> KafkaSource:
        config = KafkaSourceConfig(
            type="kafka", bootstrap_servers=feed.broker.address, topic=feed.name, decoder="json", **declared
        )
        return KafkaSource(
            config, TableName("a", "made"), TableConfig(source="a", entity="made", keys=("id",))
        )
