"""What sources of streams share: records by partition and position, whose meaning another source type tells.

A batch of a stream is a range of each partition. It is planned in the ledger before a record is read, as a
``LandedFile`` whose path names the stream, its identity, the partition and the ends of the range. So chains,
plans after a crash and replays are those of files.
"""

from __future__ import annotations

import dataclasses
import re
from abc import ABC, abstractmethod
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, NamedTuple, TypeVar, cast

from kedro_lakehouse.config.sources import StreamSourceConfig
from kedro_lakehouse.config.validation import validated
from kedro_lakehouse.errors import SourceUnreachableError
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
    from kedro_lakehouse.sources.base import GivesChanges, Lag
    from kedro_lakehouse.sources.files import FileShape, Load

_RANGE: Final = re.compile(
    r"(\w+)://(?P<id>[^/]+)/(?P<first>\d+)-(?P<end>\d+)/(?P<stream>[^/:]+):(?P<part>.+)"
)
_AT_ONCE: Final = 5_000
"""So many records are one Arrow batch at most."""
_FEW_BYTES: Final = 32_000_000
"""Records of ranges of so many bytes, by what was planned, are read by the driver, if they have no more."""
_LINES: Final = "value string, key string, _position struct<file: string, row: bigint>, __file string"
_C = TypeVar("_C", bound=StreamSourceConfig)


@dataclasses.dataclass(frozen=True, kw_only=True)
class StreamRange:
    """The records of a partition from position ``first`` up to, and without, ``end``.

    ``size`` are their bytes, as far as known. ``until`` is the time up to which the partition was read, in
    milliseconds since the epoch, where the stream tells times.
    """

    stream: str
    identity: str
    partition: str
    first: int
    end: int
    size: int = 0
    until: int = 0

    @property
    def name(self) -> str:
        """The name of the partition."""
        return f"{self.stream}:{self.partition}"

    def planned(self, scheme: str) -> LandedFile:
        """The range as the ledger holds it."""
        path = f"{scheme}://{self.identity}/{self.first}-{self.end}/{self.name}"
        return LandedFile(path, self.size, self.until)

    @classmethod
    def of(cls, planned: LandedFile) -> StreamRange:
        """The range that a plan of the ledger names."""
        found = _RANGE.fullmatch(planned.path)
        assert found is not None, planned.path  # noqa: S101 - ``planned`` wrote it
        return cls(
            stream=found["stream"], identity=found["id"], partition=found["part"],
            first=int(found["first"]), end=int(found["end"]), size=planned.size, until=planned.modified,
        )  # fmt: skip


class Record(NamedTuple):
    """A record: where it lies (see ``StreamSource``), its key and its value."""

    file: str
    row: int
    key: bytes | None
    value: bytes | None


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
        self._held: tuple[list[LandedFile], pa.Table | None] = [], None
        self.credentials: Callable[[], Mapping[str, Any]] = dict
        """Fetches the entry of credentials.yml that the declaration names."""
        self.registry: Callable[[], SchemaRegistry] | None = None
        """Opens the schema registry that the declaration names."""

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

    @property
    def options(self) -> Mapping[Load, CsvOptions]:
        """Formats of dates and times, as for files."""
        return self._records.options

    def files(self) -> list[LandedFile]:
        """None: what is new depends on what was published, see ``after``."""
        return []

    # The records.
    def lines(self, session: SparkSession, planned: Sequence[LandedFile]) -> DataFrame:
        """The records of planned ranges as lazy lines.

        Few records are read here, once: Spark would start Python workers, and each job would read them anew.

        Schema:
            returns: ``value`` (null for a tombstone), ``key``, ``_position``, ``__file``.
        """
        read, table, reader = self.read(), str(self._name), self._reader()
        if sum(file.size for file in planned) <= self._few and not is_spark3():
            if self._held[0] != list(planned):
                self._held = list(planned), _read_here(planned, read, table, reader)
            if self._held[1] is not None:
                return session.createDataFrame(self._held[1])
        facts = [(file.path, file.size, file.modified) for file in planned]
        frame = session.createDataFrame(facts, "path string, size bigint, modified bigint")
        if len(planned) > 1:
            frame = frame.repartition(len(planned))

        def lines(batches: Iterable[pa.RecordBatch]) -> Iterable[pa.RecordBatch]:
            for batch in batches:
                for row in batch.to_pylist():
                    with carried():
                        yield from _batches(LandedFile(**row), read, table, reader)

        return frame.mapInArrow(lines, _LINES)

    _few: ClassVar[int] = _FEW_BYTES
    """Ranges of up to so many planned bytes are read by the driver."""

    def _reader(self) -> RecordReader | None:
        """What writes records in Avro as JSON; None where they are JSON."""
        if self.registry is None:
            return None
        form: Form = "messages" if self._config.record_source == "debezium" else "rows"
        return RecordReader(self.registry(), form)


def _read_here(
    planned: Sequence[LandedFile],
    read: Callable[[LandedFile], Iterator[Record]],
    table: str,
    reader: RecordReader | None,
) -> pa.Table | None:
    """The records of ranges, read by this process; None if they are too large for it, or there are none."""
    import pyarrow as pa

    found, size = list[pa.RecordBatch](), 0
    for wanted in planned:
        for batch in _batches(wanted, read, table, reader):
            found.append(batch)
            size += batch.nbytes
            if size > _FEW_BYTES:
                return None
    return pa.Table.from_batches(found) if found else None


def _batches(
    planned: LandedFile,
    read: Callable[[LandedFile], Iterator[Record]],
    table: str,
    reader: RecordReader | None,
) -> Iterator[pa.RecordBatch]:
    records = read(planned)
    while chunk := list(islice(records, _AT_ONCE)):
        try:
            yield _batch(planned.name, chunk, reader)
        except NoAnswerError as error:
            place = f"the schema registry {reader.registry.place}" if reader else ""
            raise SourceUnreachableError(table=table, place=place, detail=str(error)) from error


def _batch(partition: str, records: Sequence[Record], reader: RecordReader | None) -> pa.RecordBatch:
    import pyarrow as pa

    values, keys = [r.value for r in records], [r.key for r in records]
    places = pa.array([r.file for r in records], pa.string())
    rows = pa.array([r.row for r in records], pa.int64())
    return pa.RecordBatch.from_arrays(
        [
            pa.array(reader.texts(values) if reader else map(plain_text, values), pa.string()),
            pa.array(reader.keys(keys) if reader else map(plain_text, keys), pa.string()),
            cast("pa.Array", pa.StructArray.from_arrays([places, rows], ["file", "row"])),
            pa.array([partition] * len(records), pa.string()),
        ],
        ["value", "key", "_position", "__file"],
    )
