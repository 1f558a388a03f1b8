"""What sources of streams share: records by partition and position, whose meaning another source type tells.

A batch of a stream is a range of each partition. It is planned in the ledger before a record is read, as a
``LandedFile`` whose path names the stream, its identity, the partition and the ends of the range. So chains,
plans after a crash and replays are those of files.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, TypeVar

from kedro_lakehouse.config.metadata import metadata_of
from kedro_lakehouse.config.sources import StreamSourceConfig
from kedro_lakehouse.config.validation import validated
from kedro_lakehouse.ops.from_workers import carried
from kedro_lakehouse.plugins import SOURCES, load_plugin
from kedro_lakehouse.schema_registries.records import RecordReader, named_by
from kedro_lakehouse.session.line import is_spark3
from kedro_lakehouse.sources.metadata import Metadata
from kedro_lakehouse.sources.raw_copy import RawCopy
from kedro_lakehouse.sources.record_lines import FEW_BYTES, as_lines, lines_of, type_of_lines
from kedro_lakehouse.sources.records import Record, StreamRange

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import types as T

    from kedro_lakehouse.config.sources import CsvOptions
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.schema_registries.avro import Form
    from kedro_lakehouse.schema_registries.base import Part, SchemaRegistry
    from kedro_lakehouse.sources.base import GivesChanges, Lag
    from kedro_lakehouse.sources.files import FileShape, LandedFile, Load
    from kedro_lakehouse.sources.schemas import TopicSchemas

__all__ = ["Record", "RecordStream", "StreamRange"]

_AT_ONCE: Final = 5_000
"""So many records are one Arrow batch at most."""
_C = TypeVar("_C", bound=StreamSourceConfig)


class RecordStream(ABC, Generic[_C]):
    """The records of one table in a stream; what they mean, the source type named by ``decoder`` says.

    A subclass says what is new, as ``StreamSource`` describes it, and reads a range.
    """

    gives: ClassVar[Literal["ranges"]] = "ranges"
    headers: ClassVar[Mapping[Load, bool]] = {"full_load": False, "changes": False}
    unnamed_columns: ClassVar[Mapping[Load, Sequence[str]]] = {"full_load": (), "changes": ()}

    def __init__(self, config: _C, name: TableName, table: TableConfig) -> None:
        """Store the declarations; the stream is not asked yet."""
        self._config, self._name, self._table = config, name, table
        self._stream = config.stream_of(table)
        kind: Any = load_plugin(SOURCES, config.record_source)
        declared = validated(kind.config_model, config.of_records, "sources.yml", f"{table.source}.records")
        self._records: GivesChanges = kind(declared, name, table)
        self._raw = None if config.raw is None else RawCopy(config.raw, str(name))
        self._metadata = Metadata.of(metadata_of(config), table)
        self._held = _Held()
        self.credentials: Callable[[], Mapping[str, Any]] = dict
        """Fetches the entry of credentials.yml that the declaration names."""
        self.open_schemas: Callable[[], TopicSchemas] | None = None
        """Opens the schemas of the registry that the declaration names."""

    @abstractmethod
    def before_start(self) -> list[LandedFile]:
        """The ranges that the declared ``start`` leaves out."""

    @abstractmethod
    def after(
        self, published: Iterable[LandedFile], begun: Iterable[LandedFile] = (), times: int = 1
    ) -> list[LandedFile]:
        """The next range of each partition that has records after the published ranges."""

    @abstractmethod
    def lag(
        self, published: Iterable[LandedFile], begun: Iterable[LandedFile] = (), *, timed: bool = False
    ) -> Lag:
        """What waits after the published ranges."""

    @abstractmethod
    def gone(self, planned: Sequence[LandedFile]) -> list[str]:
        """The names of the ranges that the stream does not hold any more."""

    @abstractmethod
    def read(self) -> Callable[[LandedFile], Iterator[Record]]:
        """A function that reads a planned range; Spark sends it to its workers."""

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

    def metadata_kinds(self) -> Mapping[str, T.DataType]:
        """The types of the columns with facts that the stream tells of its records, by their names."""
        return self._metadata.kinds()

    @property
    def options(self) -> Mapping[Load, CsvOptions]:
        """Formats of dates and times, as for files."""
        return self._records.options

    def files(self) -> list[LandedFile]:
        """None: what is new depends on what was published, see ``after``."""
        return []

    # The records.
    def few_lines(self, planned: Sequence[LandedFile]) -> pa.Table | None:
        """The records of planned ranges as lines that this process has read, without Spark.

        None if they are more than few, or if there are none: then ``lines`` has them.
        """
        if is_spark3():
            return None
        if self._held.planned != list(planned):
            self.release()
            self._held = self._looked_here(planned) or _Held()
        return self._held.lines

    def _read_few(self, planned: Sequence[LandedFile]) -> list[tuple[str, list[Record]]] | None:
        """The records of ranges, read by this process; None if they are too many for it."""
        is_small = sum(file.size for file in planned) <= self._few
        return _read_here(planned, self.read(), self._raw) if is_small else None

    def lines(self, session: SparkSession, planned: Sequence[LandedFile]) -> DataFrame:
        """The records of planned ranges as lazy lines.

        Few records are read here: Spark would start Python workers. Of many, Spark keeps what its workers
        read until ``release``: names of fields are found in them, and then rows are made of them.

        Schema:
            returns: ``value`` (null for a tombstone), ``key``, ``_position``, ``__file``. Where the
                declaration names facts of the stream, they are a struct ``metadata`` within ``_position``.
        """
        if self._held.planned != list(planned):
            self.release()
            self._held = self._looked(session, planned)
        if self._held.lines is not None:
            return session.createDataFrame(self._held.lines)
        if (frame := self._held.frame) is None:
            frame = self._lines_by_workers(session, planned, self._held.reader).persist()
            self._held = dataclasses.replace(self._held, frame=frame)
        return frame

    def release(self) -> None:
        """Forget the records that were read last."""
        if self._held.frame is not None:
            self._held.frame.unpersist()
        self._held = _Held()

    def _lines_by_workers(
        self, session: SparkSession, planned: Sequence[LandedFile], reader: RecordReader | None
    ) -> DataFrame:
        """The records of planned ranges as lines that Spark's workers read, a task for each range."""
        read, ranges, facts = self.read(), tuple(planned), self._metadata
        raw = None if self._raw is None else self._raw.looked_at(planned)

        def lines(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
            for range_, chunk in _chunks(batches, ranges, read, raw):
                yield lines_of(range_.name, chunk, reader, facts)

        return _tasks(session, len(ranges)).mapInArrow(lines, type_of_lines(facts))

    def _looked(self, session: SparkSession, planned: Sequence[LandedFile]) -> _Held:
        """Read the records of ranges if they are few, and find the schemas that they name.

        Of many records, Spark's workers find these names, by one more reading, so that all schemas are known
        before the first record is decoded.
        """
        by_workers = is_spark3()
        if self._schemas is None and by_workers:
            return _Held(list(planned))
        if (found := self._looked_here(planned)) is not None:
            return dataclasses.replace(found, lines=None) if by_workers else found
        if self._schemas is None:
            return _Held(list(planned))
        named = _named_by_many(session, planned, self.read(), self._schemas.registry)
        return _Held(list(planned), reader=self._schemas.reader(named, self._form))

    def _looked_here(self, planned: Sequence[LandedFile]) -> _Held | None:
        """What this process finds in few records; None if they are too many for it."""
        chunks = self._read_few(planned)
        if chunks is None:
            return None
        reader = None
        if self._schemas is not None:
            registry = self._schemas.registry
            named = {one for _, chunk in chunks for one in _named(registry, chunk)}
            reader = self._schemas.reader(named, self._form)
        return _Held(list(planned), as_lines(chunks, reader, self._metadata), reader)

    _few: ClassVar[int] = FEW_BYTES
    """Ranges of up to so many planned bytes are read by the driver."""

    @cached_property
    def _schemas(self) -> TopicSchemas | None:
        """The schemas that records in Avro name; None where they are JSON."""
        return None if self.open_schemas is None else self.open_schemas()

    @property
    def _form(self) -> Form:
        return "messages" if self._config.record_source == "debezium" else "rows"

    def row_schemas(self) -> list[str]:
        """The schemas of the rows that were read last, by version; none where they are JSON."""
        reader = self._held.reader
        return list(reader.values.values()) if reader is not None and self._form == "rows" else []

    def keep_schemas(self, batch: int) -> None:
        """Keep the schemas that records of this batch were the first to name."""
        if self._schemas is not None:
            self._schemas.keep(batch)


@dataclasses.dataclass(frozen=True)
class _Held:
    """What was found in ranges: their records as lines, few or many, and what reads records in Avro."""

    planned: Sequence[LandedFile] = ()
    lines: pa.Table | None = None
    reader: RecordReader | None = None
    frame: DataFrame | None = None


def _read_here(
    planned: Sequence[LandedFile], read: Callable[[LandedFile], Iterator[Record]], raw: RawCopy | None
) -> list[tuple[str, list[Record]]] | None:
    """The records of ranges, read by this process; None if they are too large for it."""
    found, size = list[tuple[str, list[Record]]](), 0
    for wanted in planned:
        records = read(wanted) if raw is None else raw.copied(wanted, read(wanted))
        while chunk := list(islice(records, _AT_ONCE)):
            found.append((wanted.name, chunk))
            size += sum(len(one.value or b"") + len(one.key or b"") for one in chunk)
            if size > FEW_BYTES:
                return None
    return found


def _tasks(session: SparkSession, number: int) -> DataFrame:
    """A frame of so many numbers, each in a task of its own."""
    return session.range(0, number, 1, number)


def _chunks(
    batches: Iterable[pa.RecordBatch],
    planned: Sequence[LandedFile],
    read: Callable[[LandedFile], Iterator[Record]],
    raw: RawCopy | None = None,
) -> Iterator[tuple[LandedFile, list[Record]]]:
    """The records of the ranges with these numbers, in a worker; our own errors reach the driver."""
    for batch in batches:
        for number in batch["id"].to_pylist():
            with carried():
                wanted = planned[number]
                records = read(wanted) if raw is None else raw.copied(wanted, read(wanted))
                while chunk := list(islice(records, _AT_ONCE)):
                    yield wanted, chunk


def _named(registry: SchemaRegistry, records: Sequence[Record]) -> set[tuple[Part, str]]:
    """The schemas that records name."""
    values = named_by(registry, "value", (one.value for one in records))
    return values | named_by(registry, "key", (one.key for one in records))


def _named_by_many(
    session: SparkSession,
    planned: Sequence[LandedFile],
    read: Callable[[LandedFile], Iterator[Record]],
    registry: SchemaRegistry,
) -> set[tuple[Part, str]]:
    """The schemas that the records of ranges name, found by Spark's workers: one job."""
    ranges = tuple(planned)

    def names(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
        import pyarrow as pa

        seen: set[tuple[Part, str]] = set()
        for _, chunk in _chunks(batches, ranges, read):
            seen |= _named(registry, chunk)
        rows = [{"part": part, "id": identity} for part, identity in sorted(seen)]
        yield pa.RecordBatch.from_pylist(rows, pa.schema([("part", pa.string()), ("id", pa.string())]))

    found = _tasks(session, len(ranges)).mapInArrow(names, "part string, id string").distinct().collect()
    return {(row["part"], row["id"]) for row in found}
