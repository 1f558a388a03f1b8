"""Topics of Apache Kafka: a batch is a range of offsets of each partition.

Ends and identities are found without a JVM; records are read by Spark's Python workers.
"""

from __future__ import annotations

import dataclasses
import time
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kedro_lakehouse.config.sources import KafkaSourceConfig
from kedro_lakehouse.errors import OffsetsGoneError, SourceUnreachableError, TopicReplacedError, require
from kedro_lakehouse.sources.base import Lag
from kedro_lakehouse.sources.dead_letters import DeadLetterTopic
from kedro_lakehouse.sources.streams import Record, RecordStream, StreamRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.sources.files import LandedFile

SCHEME: Final = "kafka"
_SECONDS: Final = 15.0
"""A broker that gives no answer for so long is out of reach."""
_BYTES: Final = 200
"""Of how many bytes a record is taken to be, before it is read: for what load Spark is started."""
_FEW: Final = 10_000
"""Up to so many offsets are read by the driver."""


class KafkaSource(RecordStream[KafkaSourceConfig]):
    """The records of one table in a topic."""

    config_model: ClassVar[type[KafkaSourceConfig]] = KafkaSourceConfig
    _few: ClassVar[int] = _FEW * _BYTES

    # What is new.
    @cached_property
    def _offsets(self) -> _Offsets:
        """The partitions as they are now: a run reads up to these ends, however fast the topic grows.

        Raises:
            UnsupportedError: The extra ``kafka`` is not installed.
        """
        require("confluent_kafka", what="Kafka needs confluent-kafka", install="'kedro-lakehouse[kafka]'")
        return _offsets_of(self._config, self._client, self._stream, self._name)

    @property
    def _client(self) -> dict[str, Any]:
        """The settings of Kafka's client; those of credentials go before ours."""
        return {"bootstrap.servers": self._config.bootstrap_servers, **self.credentials()}

    def before_start(self) -> list[LandedFile]:
        """What the declared ``start`` leaves out of each partition, now that the table begins."""
        if self._config.start == "earliest":
            return []
        found = self._offsets
        return [
            self._range(partition, earliest, found.starts[partition])
            for partition, (earliest, _) in sorted(found.partitions.items())
        ]

    def _range(self, partition: int, first: int, end: int) -> LandedFile:
        """A range as the ledger holds it; its size is an estimate."""
        found = StreamRange(
            stream=self._stream, identity=self._offsets.topic_id, partition=str(partition),
            first=first, end=end, size=(end - first) * _BYTES,
        )  # fmt: skip
        return found.planned(SCHEME)

    def after(
        self, published: Iterable[LandedFile], begun: Iterable[LandedFile] = (), times: int = 1
    ) -> list[LandedFile]:
        """The next range of each partition that has records after the published ranges.

        A partition of which nothing is published begins where it began before, if the table is built anew;
        else at its earliest record.

        Args:
            published: The ranges of the published batches, and what ``before_start`` left out.
            begun: All ranges that were ever planned.
            times: By what the greatest number of records is multiplied.

        Raises:
            OffsetsGoneError: The topic does not hold the records after the published ones any more.
            TopicReplacedError: It was deleted and made again.
            SourceUnreachableError: The broker does not answer, or there is no such topic.
        """
        waiting = self._waiting(published, begun)
        room = self._config.max_records * times
        ranges = []
        # The shortest first: what they leave is shared by the others.
        for count, (partition, (first, end)) in enumerate(
            sorted(waiting.items(), key=lambda one: (one[1][1] - one[1][0], one[0]))
        ):
            taken = min(end - first, max(1, room // (len(waiting) - count)))
            room -= taken
            ranges.append(self._range(partition, first, first + taken))
        return sorted(ranges)

    def lag(
        self, published: Iterable[LandedFile], begun: Iterable[LandedFile] = (), *, timed: bool = False
    ) -> Lag:
        """What waits after the published ranges. Offsets are counted; a compacted topic has fewer records.

        Args:
            timed: Whether to read the first record of each partition, to tell since when it waits.

        Raises:
            OffsetsGoneError, TopicReplacedError, SourceUnreachableError: As ``after``.
        """
        waiting = self._waiting(published, begun)
        records = sum(end - first for first, end in waiting.values())
        since = self._since({p: first for p, (first, _) in waiting.items()}) if timed and waiting else None
        seconds = None if since is None else max(time.time() - since / 1000, 0.0)
        return Lag(partitions=len(waiting), records=records, bytes=records * _BYTES, seconds=seconds)

    def _waiting(
        self, published: Iterable[LandedFile], begun: Iterable[LandedFile]
    ) -> dict[int, tuple[int, int]]:
        """Of each partition with waiting records, the first offset and the end."""
        found, ends = self._offsets, dict[int, int]()
        for one in map(StreamRange.of, published):
            self._require_same(one)
            ends[int(one.partition)] = max(one.end, ends.get(int(one.partition), 0))
        firsts = dict[int, int]()
        for one in map(StreamRange.of, begun):
            if one.identity == found.topic_id:
                firsts[int(one.partition)] = min(one.first, firsts.get(int(one.partition), one.first))
        waiting = {}
        for partition, (earliest, end) in found.partitions.items():
            first = ends.get(partition, firsts.get(partition, earliest))
            if first < earliest:
                raise OffsetsGoneError(
                    table=self._name, partition=f"{self._stream}:{partition}", wanted=first, earliest=earliest
                )
            if end > first:
                waiting[partition] = (first, end)
        return waiting

    def _since(self, firsts: Mapping[int, int]) -> int | None:
        """The time of the earliest of these records, in milliseconds; None if the broker tells none."""
        from confluent_kafka import Consumer, TopicPartition

        consumer = Consumer(_reading(self._client), logger=_silent())
        try:
            consumer.assign([TopicPartition(self._stream, p, first) for p, first in firsts.items()])
            times, patience = dict[int, int](), time.monotonic() + _SECONDS
            while len(times) < len(firsts) and time.monotonic() < patience:
                message = consumer.poll(1.0)
                if message is None or message.error() is not None:
                    continue
                times.setdefault(message.partition(), message.timestamp()[1])
                consumer.incremental_unassign([TopicPartition(self._stream, message.partition())])
        finally:
            consumer.close()
        known = [moment for moment in times.values() if moment > 0]
        return min(known, default=None)

    def gone(self, planned: Sequence[LandedFile]) -> list[str]:
        """The names of the ranges that the topic does not hold any more."""
        found = self._offsets
        gone = []
        for file in planned:
            one = StreamRange.of(file)
            earliest, end = found.partitions.get(int(one.partition), (0, 0))
            if one.identity != found.topic_id or one.first < earliest or one.end > end:
                gone.append(file.name)
        return gone

    def _require_same(self, one: StreamRange) -> None:
        if one.identity != self._offsets.topic_id or one.stream != self._stream:
            raise TopicReplacedError(table=self._name, topic=self._stream)

    @property
    def dead_letters(self) -> DeadLetterTopic | None:
        """Where the table's quarantined records are written too; None if nowhere."""
        topic = self._config.dead_letters_of(self._table)
        if topic is None:
            return None

        def messages(partition: int, first: int, end: int) -> Iterator[Any]:
            wanted = StreamRange(
                stream=self._stream, identity=self._offsets.topic_id, partition=str(partition),
                first=first, end=end,
            )  # fmt: skip
            return _messages(wanted, self._client, str(self._name))

        client = {**self._client, "logger": _silent()}
        return DeadLetterTopic(
            table=self._name, source=self._stream, topic=topic, client=client, messages=messages
        )

    def read(self) -> Callable[[LandedFile], Iterator[Record]]:
        """Reads a range; offsets without a record (compaction, marks of transactions) are no loss."""
        return partial(_read, settings=self._client, table=str(self._name))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Offsets:
    """A topic's identity, and of each partition the earliest offset, the end, and where reading begins."""

    topic_id: str
    partitions: Mapping[int, tuple[int, int]]
    starts: Mapping[int, int]


def _offsets_of(
    config: KafkaSourceConfig, client: Mapping[str, Any], topic: str, name: TableName
) -> _Offsets:
    from confluent_kafka import IsolationLevel, KafkaException, TopicCollection, TopicPartition
    from confluent_kafka.admin import OffsetSpec

    admin = _admin(tuple(sorted(client.items())))
    try:
        described = admin.describe_topics(TopicCollection([topic]), request_timeout=_SECONDS)[topic].result()
        parts = [TopicPartition(topic, p.id) for p in described.partitions]

        def at(spec: Any) -> dict[int, int]:
            asked = admin.list_offsets(
                dict.fromkeys(parts, spec),
                isolation_level=IsolationLevel.READ_COMMITTED,
                request_timeout=_SECONDS,
            )
            return {part.partition: future.result().offset for part, future in asked.items()}

        earliest, ends = at(OffsetSpec.earliest()), at(OffsetSpec.latest())
        starts = earliest
        if config.start == "latest":
            starts = ends
        elif config.start != "earliest":
            found = at(OffsetSpec.for_timestamp(int(config.start.timestamp() * 1000)))
            starts = {p: offset if offset >= 0 else ends[p] for p, offset in found.items()}
    except KafkaException as error:
        raise SourceUnreachableError(
            table=name, place=f"topic {topic}", detail=error.args[0].str()
        ) from error
    identity = str(described.topic_id).replace("/", "_").replace("+", "-")  # as part of a path
    return _Offsets(topic_id=identity, partitions={p: (earliest[p], ends[p]) for p in ends}, starts=starts)


@cache
def _admin(settings: tuple[tuple[str, Any], ...]) -> Any:
    """One client for each cluster: each one keeps threads and connections."""
    from confluent_kafka.admin import AdminClient

    return AdminClient(dict(settings), logger=_silent())


def _silent() -> Any:
    """The client's own log says once a second that a broker is away; our error says it once."""
    import logging

    found = logging.getLogger("kedro_lakehouse.kafka_client")
    found.addHandler(logging.NullHandler())
    found.propagate = False
    return found


def _read(planned: LandedFile, *, settings: Mapping[str, Any], table: str) -> Iterator[Record]:
    wanted = StreamRange.of(planned)
    for message in _messages(wanted, settings, table):
        time_kind, moment = message.timestamp()
        yield Record(
            wanted.name, message.offset(), message.key(), message.value(),
            moment if time_kind else None, tuple(message.headers() or ()),
        )  # fmt: skip


def _reading(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a consumer."""
    return {
        **settings,
        "group.id": "kedro-lakehouse",  # never joined: partitions are assigned, offsets are in the ledger
        "enable.auto.commit": False,
        "auto.offset.reset": "error",
        "isolation.level": "read_committed",
        "enable.partition.eof": True,
        "check.crcs": True,
    }


def _messages(wanted: StreamRange, settings: Mapping[str, Any], table: str) -> Iterator[Any]:
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(_reading(settings), logger=_silent())
    try:
        consumer.assign([TopicPartition(wanted.stream, int(wanted.partition), wanted.first)])
        while (message := consumer.poll(_SECONDS)) is not None:
            if (error := message.error()) is not None:
                if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                    return
                _raise(error, wanted, table)
                continue
            if message.offset() < wanted.end:
                yield message
            if message.offset() >= wanted.end - 1:
                return
        detail = f"no answer for {_SECONDS:.0f} seconds"
        raise SourceUnreachableError(table=table, place=f"topic {wanted.stream}", detail=detail)
    finally:
        consumer.close()


def _raise(error: Any, wanted: StreamRange, table: str) -> None:
    from confluent_kafka import KafkaError

    if error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):  # noqa: SLF001
        raise OffsetsGoneError(table=table, partition=wanted.name, wanted=wanted.first, earliest=None)
    if error.fatal() or not error.retriable():
        raise SourceUnreachableError(table=table, place=f"topic {wanted.stream}", detail=error.str())
