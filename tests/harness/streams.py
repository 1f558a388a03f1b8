"""What tests of streams look up in topics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Consumer, TopicPartition

if TYPE_CHECKING:
    from harness.kafka import Broker


def letters(broker: Broker, topic: str) -> list[tuple[bytes | None, dict[str, bytes]]]:
    """All committed records of the topic: value and headers."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address, "group.id": "test", "enable.partition.eof": True,
            "isolation.level": "read_committed", "enable.auto.commit": False,
        }
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = []
    while (message := consumer.poll(10)) is not None and message.error() is None:
        found.append((message.value(), dict(message.headers())))
    consumer.close()
    return found
