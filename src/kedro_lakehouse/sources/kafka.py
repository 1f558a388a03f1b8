"""Topics of Apache Kafka: a batch is a range of offsets of each partition.

A range is planned in the ledger before a record is read, as a ``LandedFile`` whose path names the topic, its
identity, the partition and the offsets. So chains, plans after a crash and replays are those of files. Ends
and identities are found without a JVM; records are read by Spark's Python workers.
"""

from __future__ import annotations

import dataclasses
import re
from functools import cache, cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, cast

from kedro_lakehouse.config.sources import KafkaSourceConfig
from kedro_lakehouse.config.validation import validated
from kedro_lakehouse.errors import OffsetsGoneError, SourceUnreachableError, TopicReplacedError
from kedro_lakehouse.ops.from_workers import carried
from kedro_lakehouse.plugins import SOURCES, load_plugin
from kedro_lakehouse.schema_registries.base import NoAnswerError
from kedro_lakehouse.schema_registries.records import RecordReader, plain_text
from kedro_lakehouse.session.line import is_spark3
from kedro_lakehouse.sources.files import LandedFile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from kedro_lakehouse.config.sources import CsvOptions
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.schema_registries.avro import Form
    from kedro_lakehouse.schema_registries.base import SchemaRegistry
    from kedro_lakehouse.sources.base import GivesChanges
    from kedro_lakehouse.sources.files import FileShape, Load

_RANGE: Final = re.compile(
    r"kafka://(?P<id>[^/]+)/(?P<first>\d+)-(?P<end>\d+)/(?P<topic>[^/:]+):(?P<part>\d+)"
)
_SECONDS: Final = 15.0
"""A broker that gives no answer for so long is out of reach."""
_BYTES: Final = 200
"""Of how many bytes a record is taken to be, before it is read: for what load Spark is started."""
_AT_ONCE: Final = 5_000
"""So many records are one Arrow batch at most."""
_FEW: Final = 10_000
"""Up to so many offsets are read by the driver, if their records have no more bytes than ``_FEW_BYTES``."""
_FEW_BYTES: Final = 32_000_000
_LINES: Final = "value string, key string, _position struct<file: string, row: bigint>, __file string"


@dataclasses.dataclass(frozen=True, kw_only=True)
class OffsetRange:
    """The records of a partition from offset ``first`` up to, and without, ``end``."""

    topic: str
    topic_id: str
    partition: int
    first: int
    end: int

    def planned(self) -> LandedFile:
        """The range as the ledger holds it; its size is an estimate of the bytes."""
        offsets = f"{self.first}-{self.end}"
        path = f"kafka://{self.topic_id}/{offsets}/{self.topic}:{self.partition}"
        return LandedFile(path, (self.end - self.first) * _BYTES, 0)

    @classmethod
    def of(cls, planned: LandedFile) -> OffsetRange:
        """The range that a plan of the ledger names."""
        found = _RANGE.fullmatch(planned.path)
        assert found is not None, planned.path  # noqa: S101 - this module wrote it
        return cls(
            topic=found["topic"], topic_id=found["id"], partition=int(found["part"]),
            first=int(found["first"]), end=int(found["end"]),
        )  # fmt: skip


class KafkaSource:
    """The records of one table in a topic; what they mean, the source type named by ``decoder`` says."""

    config_model: ClassVar[type[KafkaSourceConfig]] = KafkaSourceConfig
    gives: ClassVar[Literal["ranges"]] = "ranges"

    def __init__(self, config: KafkaSourceConfig, name: TableName, table: TableConfig) -> None:
        """Store the declarations; the broker is not asked yet."""
        self._config, self._name = config, name
        self._topic = config.topic_of(table)
        kind: Any = load_plugin(SOURCES, config.record_source)
        declared = validated(kind.config_model, config.of_records, "sources.yml", f"{table.source}.records")
        self._records: GivesChanges = kind(declared, name, table)
        self.credentials: Callable[[], Mapping[str, Any]] = dict
        """Fetches the entry of credentials.yml that the declaration names."""
        self._held: tuple[list[OffsetRange], pa.Table | None] = [], None
        self.registry: Callable[[], SchemaRegistry] | None = None
        """Opens the schema registry that the declaration names."""

    # What the records mean.
    @property
    def decoder(self) -> str:
        """The decoder of the records."""
        return self._records.decoder

    def layout(self) -> Any:
        """What the decoder must know."""
        return self._records.layout()

    def control(self, source_columns: Sequence[str]) -> frozenset[str]:
        """The columns that describe the change."""
        return self._records.control(source_columns)

    def require_columns(self, shapes: Sequence[FileShape]) -> None:
        """Refuse records that lack a column without which they have no meaning."""
        self._records.require_columns(shapes)

    def load_of(self, file: LandedFile) -> Load:  # noqa: ARG002 - rows of a snapshot come as changes
        """All records are changes."""
        return "changes"

    @property
    def options(self) -> Mapping[Load, CsvOptions]:
        """Formats of dates and times, as for files."""
        return self._records.options

    headers: ClassVar[Mapping[Load, bool]] = {"full_load": False, "changes": False}
    unnamed_columns: ClassVar[Mapping[Load, Sequence[str]]] = {"full_load": (), "changes": ()}

    def files(self) -> list[LandedFile]:
        """None: what is new depends on what was published, see ``after``."""
        return []

    # What is new.
    @cached_property
    def _offsets(self) -> _Offsets:
        """The partitions as they are now: a run reads up to these ends, however fast the topic grows."""
        return _offsets_of(self._config, self._client, self._topic, self._name)

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
        identity = self._offsets.topic_id
        found = OffsetRange(topic=self._topic, topic_id=identity, partition=partition, first=first, end=end)
        return found.planned()

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
        found, ends = self._offsets, dict[int, int]()
        for one in map(OffsetRange.of, published):
            self._require_same(one)
            ends[one.partition] = max(one.end, ends.get(one.partition, 0))
        firsts = dict[int, int]()
        for one in map(OffsetRange.of, begun):
            if one.topic_id == found.topic_id:
                firsts[one.partition] = min(one.first, firsts.get(one.partition, one.first))
        waiting = {}
        for partition, (earliest, end) in found.partitions.items():
            first = ends.get(partition, firsts.get(partition, earliest))
            if first < earliest:
                raise OffsetsGoneError(
                    table=self._name, partition=f"{self._topic}:{partition}", wanted=first, earliest=earliest
                )
            if end > first:
                waiting[partition] = (first, end)
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

    def gone(self, planned: Sequence[LandedFile]) -> list[str]:
        """The names of the ranges that the topic does not hold any more."""
        found = self._offsets
        gone = []
        for file in planned:
            one = OffsetRange.of(file)
            earliest, end = found.partitions.get(one.partition, (0, 0))
            if one.topic_id != found.topic_id or one.first < earliest or one.end > end:
                gone.append(file.name)
        return gone

    def _require_same(self, one: OffsetRange) -> None:
        if one.topic_id != self._offsets.topic_id or one.topic != self._topic:
            raise TopicReplacedError(table=self._name, topic=self._topic)

    # The records.
    def _reader(self) -> RecordReader | None:
        """What writes records in Avro as JSON; None where they are JSON."""
        if self.registry is None:
            return None
        form: Form = "messages" if self._config.record_source == "debezium" else "rows"
        return RecordReader(self.registry(), form)

    def lines(self, session: SparkSession, planned: Sequence[LandedFile]) -> DataFrame:
        """The records of planned ranges as lazy lines.

        Few records are read here, once: Spark would start Python workers, and each job would read them anew.

        Schema:
            returns: ``value`` (null for a tombstone), ``key``, ``_position`` (topic and partition, offset),
                ``__file``.
        """
        ranges = [OffsetRange.of(file) for file in planned]
        settings, name, reader = self._client, str(self._name), self._reader()
        if sum(one.end - one.first for one in ranges) <= _FEW and not is_spark3():
            if self._held[0] != ranges:
                self._held = ranges, _read_here(ranges, settings, name, reader)
            if self._held[1] is not None:
                return session.createDataFrame(self._held[1])
        frame = session.createDataFrame(
            map(dataclasses.astuple, ranges),
            "topic string, topic_id string, partition int, first bigint, end bigint",
        )
        if len(ranges) > 1:
            frame = frame.repartition(len(ranges))

        def read(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
            for batch in batches:
                for row in batch.to_pylist():
                    with carried():
                        yield from _read(OffsetRange(**row), settings, name, reader)

        return frame.mapInArrow(read, _LINES)


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


def _read_here(
    ranges: Sequence[OffsetRange], settings: Mapping[str, Any], table: str, reader: RecordReader | None
) -> pa.Table | None:
    """The records of ranges, read by this process; None if they are too large for it, or there are none."""
    import pyarrow as pa

    found, size = list[pa.RecordBatch](), 0
    for wanted in ranges:
        for batch in _read(wanted, settings, table, reader):
            found.append(batch)
            size += batch.nbytes
            if size > _FEW_BYTES:
                return None
    return pa.Table.from_batches(found) if found else None


def _read(
    wanted: OffsetRange, settings: Mapping[str, Any], table: str, reader: RecordReader | None
) -> Iterator[pa.RecordBatch]:
    """Read a range; offsets without a record, of a compacted topic or a transaction's marks, are no loss."""
    records = _records(wanted, settings, table)
    name = f"{wanted.topic}:{wanted.partition}"
    while chunk := list(islice(records, _AT_ONCE)):
        try:
            yield _batch(name, chunk, reader)
        except NoAnswerError as error:
            place = f"the schema registry {reader.registry.place}" if reader else ""
            raise SourceUnreachableError(table=table, place=place, detail=str(error)) from error


def _records(wanted: OffsetRange, settings: Mapping[str, Any], table: str) -> Iterator[Any]:
    from confluent_kafka import Consumer, KafkaError, TopicPartition

    consumer = Consumer(
        {
            **settings,
            "group.id": "kedro-lakehouse",  # never joined: partitions are assigned, offsets are in the ledger
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "check.crcs": True,
        },
        logger=_silent(),
    )
    try:
        consumer.assign([TopicPartition(wanted.topic, wanted.partition, wanted.first)])
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
        raise SourceUnreachableError(table=table, place=f"topic {wanted.topic}", detail=detail)
    finally:
        consumer.close()


def _raise(error: Any, wanted: OffsetRange, table: str) -> None:
    from confluent_kafka import KafkaError

    if error.code() in (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET):  # noqa: SLF001
        place = f"{wanted.topic}:{wanted.partition}"
        raise OffsetsGoneError(table=table, partition=place, wanted=wanted.first, earliest=None)
    if error.fatal() or not error.retriable():
        raise SourceUnreachableError(table=table, place=f"topic {wanted.topic}", detail=error.str())


def _batch(name: str, records: Sequence[Any], reader: RecordReader | None) -> pa.RecordBatch:
    import pyarrow as pa

    as_value, as_key = (reader.text, reader.key) if reader else (plain_text, plain_text)
    place = pa.array([name] * len(records), pa.string())
    offsets = pa.array([r.offset() for r in records], pa.int64())
    return pa.RecordBatch.from_arrays(
        [
            pa.array([as_value(r.value()) for r in records], pa.string()),
            pa.array([as_key(r.key()) for r in records], pa.string()),
            cast("pa.Array", pa.StructArray.from_arrays([place, offsets], ["file", "row"])),
            place,
        ],
        ["value", "key", "_position", "__file"],
    )
