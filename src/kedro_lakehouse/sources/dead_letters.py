"""Quarantined records of a topic, written to another topic too, each once.

The group ``kedro-lakehouse.letters.<table>`` holds how far the letters of each partition are written: its
offsets are committed in the transaction that writes the letters. So a kill leaves both or neither.
"""

from __future__ import annotations

import json
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.errors import OffsetsGoneError, SourceUnreachableError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kedro_lakehouse.names import TableName

_SECONDS: Final = 15.0
_PREFIX: Final = "kedro_lakehouse."
_WHOLE: Final = {"enable.partition.eof": True, "isolation.level": "read_committed"}
"""Settings of a consumer that reads a topic to its ends."""


@dataclass(frozen=True, kw_only=True)
class Letter:
    """A quarantined record of a topic: where it lies there, its batch, and why it is in quarantine.

    ``schema`` is the identity of its schema, if this does not fit; else empty.
    """

    partition: int
    offset: int
    batch: int
    reasons: Sequence[str]
    schema: str = ""


@dataclass(frozen=True, kw_only=True)
class DeadLetterTopic:
    """The dead letters of one table.

    ``messages`` reads the records of a partition from one offset up to, and without, another.
    """

    table: TableName
    source: str
    topic: str
    client: Mapping[str, Any]
    messages: Callable[[int, int, int], Iterator[Any]]

    def written(self, partitions: Iterable[int]) -> dict[int, int]:
        """Up to which offset of each partition the letters are written.

        Kafka forgets the offsets of a group that committed none for a week. Then the letters themselves say
        what is written.

        Raises:
            SourceUnreachableError: The broker does not answer, or there is no such topic.
        """
        from confluent_kafka import Consumer, KafkaException, TopicPartition

        consumer = Consumer(self._as_group() | _WHOLE)
        asked = [TopicPartition(self.source, number) for number in partitions]
        try:
            held = {one.partition: one.offset for one in consumer.committed(asked, _SECONDS)}
            if any(offset < 0 for offset in held.values()):
                self._require_topic(consumer)
                found = self._told_by_letters(consumer)
                return {number: max(offset, found.get(number, 0)) for number, offset in held.items()}
        except KafkaException as error:
            raise self._unreachable(error) from error
        finally:
            consumer.close()
        return held

    def _told_by_letters(self, consumer: Any) -> dict[int, int]:
        """Up to which offset of each partition there are letters of this table: reads the whole topic."""
        from confluent_kafka import OFFSET_BEGINNING, KafkaError, KafkaException, TopicPartition

        numbers = consumer.list_topics(self.topic, _SECONDS).topics[self.topic].partitions
        consumer.assign([TopicPartition(self.topic, number, OFFSET_BEGINNING) for number in numbers])
        found, left = dict[int, int](), len(numbers)
        while left:
            message = consumer.poll(_SECONDS)
            error = KafkaError(KafkaError._TIMED_OUT) if message is None else message.error()  # noqa: SLF001
            if error is not None:
                if error.code() != KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                    raise KafkaException(error)
                left -= 1
                continue
            facts = {name: text for name, text in message.headers() or () if name.startswith(_PREFIX)}
            if facts.get(f"{_PREFIX}table") == str(self.table).encode():
                place = int(facts[f"{_PREFIX}partition"]), int(facts[f"{_PREFIX}offset"])
                found[place[0]] = max(place[1] + 1, found.get(place[0], 0))
        return found

    def write(self, letters: Iterable[Letter], ends: Mapping[int, int]) -> None:
        """Write letters, and that those before these offsets of each partition are written.

        A letter is the record as it was sent, with its headers and ours. A record that its topic has lost
        meanwhile has only headers.

        Raises:
            SourceUnreachableError: The broker does not answer, or there is no such topic: nothing is written.
        """
        from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

        by_partition = defaultdict[int, dict[int, Letter]](dict)
        for letter in letters:
            by_partition[letter.partition][letter.offset] = letter
        done = [TopicPartition(self.source, number, end) for number, end in ends.items()]
        settings = {**self.client, "transactional.id": f"kedro-lakehouse.letters.{self.table}"}
        producer = Producer(settings)
        group = Consumer(self._as_group())
        try:
            self._require_topic(producer)
            producer.init_transactions(_SECONDS)
            producer.begin_transaction()
            for partition, wanted in sorted(by_partition.items()):
                self._send(producer, partition, wanted)
            producer.send_offsets_to_transaction(done, group.consumer_group_metadata(), _SECONDS)
            producer.commit_transaction(_SECONDS)
        except KafkaException as error:
            raise self._unreachable(error) from error
        finally:
            group.close()
            producer.close()

    def _require_topic(self, client: Any) -> None:
        """Refuse a topic that is not there: in a transaction that would only be known after a minute."""
        from confluent_kafka import KafkaException

        found = client.list_topics(self.topic, _SECONDS).topics[self.topic]
        if found.error is not None:
            raise KafkaException(found.error)

    def _send(self, producer: Any, partition: int, wanted: Mapping[int, Letter]) -> None:
        left = dict(wanted)
        with suppress(OffsetsGoneError):
            for message in self.messages(partition, min(wanted), max(wanted) + 1):
                letter = left.pop(message.offset(), None)
                if letter is not None:
                    headers = [*(message.headers() or ()), *self._headers(letter)]
                    producer.produce(self.topic, value=message.value(), key=message.key(), headers=headers)
                    producer.poll(0)
        for letter in left.values():
            producer.produce(self.topic, headers=self._headers(letter))

    def _headers(self, letter: Letter) -> list[tuple[str, bytes]]:
        facts = {
            "table": str(self.table), "batch": str(letter.batch), "topic": self.source,
            "partition": str(letter.partition), "offset": str(letter.offset),
            "reasons": json.dumps(list(letter.reasons)),
            **({"schema_id": letter.schema} if letter.schema else {}),
        }  # fmt: skip
        return [(_PREFIX + name, fact.encode()) for name, fact in facts.items()]

    def _as_group(self) -> dict[str, Any]:
        group = f"kedro-lakehouse.letters.{self.table}"
        return {**self.client, "group.id": group, "enable.auto.commit": False}

    def _unreachable(self, error: Any) -> SourceUnreachableError:
        place = f"topic {self.topic} for dead letters"
        return SourceUnreachableError(table=self.table, place=place, detail=error.args[0].str())
