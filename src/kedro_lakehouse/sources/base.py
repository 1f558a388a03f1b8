"""The interface of a file source, whatever its type, and what the sources of this package share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Literal, Protocol, TypeVar, runtime_checkable

from kedro_lakehouse.config.sources import CsvOptions, FileSourceConfig, SourceConfig
from kedro_lakehouse.errors import MissingColumnError
from kedro_lakehouse.sources.files import FileShape, LandedFile, Load, list_files

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import types as T

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName

LOADS: Final[tuple[Load, Load]] = ("full_load", "changes")
_C = TypeVar("_C", bound=SourceConfig)


class FileSource(Protocol):
    """A source of files; register it in the entry-point group ``kedro_lakehouse.sources``."""

    config_model: ClassVar[type[SourceConfig]]
    gives: ClassVar[Literal["changes", "extracts", "ranges"]]

    def __init__(self, config: Any, name: TableName, table: TableConfig) -> None:
        """Store the declarations; no file is listed yet."""

    def files(self) -> list[LandedFile]:
        """The landed files, the earliest first."""

    def load_of(self, file: LandedFile) -> Load:
        """Whether a file belongs to a full load or to the changes."""

    @property
    def options(self) -> Mapping[Load, CsvOptions]:
        """How text files of each load are read."""

    @property
    def headers(self) -> Mapping[Load, bool]:
        """Whether text files name their columns in their first line."""

    @property
    def unnamed_columns(self) -> Mapping[Load, Sequence[str]]:
        """Column names of text files without a header, for which the source declares no names."""

    def control(self, source_columns: Sequence[str]) -> frozenset[str]:
        """The source's columns that describe the change, not the row, such as the operation."""


class GivesChanges(FileSource, Protocol):
    """A source of change records; a class attribute ``keyed = True`` says that its lines have keys."""

    decoder: ClassVar[str]
    """A name of the entry-point group ``kedro_lakehouse.change_decoders``."""

    def layout(self) -> Any:
        """What the decoder must know about how this source writes its records."""

    def require_columns(self, shapes: Sequence[FileShape]) -> None:
        """Refuse files that lack a column without which their changes have no meaning.

        Raises:
            MissingColumnError: A file with rows lacks such a column.
        """


@dataclass(frozen=True, kw_only=True)
class Lag:
    """What a stream holds that no batch has: of how many partitions, records, and bytes by an estimate.

    ``records`` is None where a stream does not count, ``seconds`` (since the first of these records was
    written) where none waits, where nobody asked, or where the stream tells no times. ``is_due`` says that a
    run should note that nothing came: ``after`` then gives ranges without records.
    """

    partitions: int
    records: int | None
    bytes: int
    seconds: float | None
    is_due: bool = False


@dataclass(frozen=True, kw_only=True)
class Waiting:
    """What a source has that is in no batch: files, or partitions of a stream with so many records at most.

    ``seconds``: since when the first of these records waits; None where nothing does, and for files.
    """

    files: int
    bytes: int
    records: int | None = None
    seconds: float | None = None


@runtime_checkable
class StreamSource(GivesChanges, Protocol):
    """A source of partitions whose records have positions. The ledger holds ranges of positions like files.

    A range has a path ``scheme://<identity>/<first>-<end>/<name>``: the identity tells a stream that was
    made anew, the name is that of the partition. ``_position`` of a record is a row number in a file; the
    file is the partition's name, or begins with it and a colon where one number does not tell the record.
    """

    def before_start(self) -> list[LandedFile]:
        """The ranges that the declaration leaves out at the table's begin; empty if it begins with all."""

    def after(
        self, published: Iterable[LandedFile], begun: Iterable[LandedFile] = (), times: int = 1
    ) -> list[LandedFile]:
        """The next range of each partition that has records after the published ranges.

        Args:
            published: The ranges of the published batches, and what ``before_start`` left out; of many, for
                each partition those that end last and were read last.
            begun: The ranges that were ever planned: where a table that is built anew begins; of many, for
                each partition the one that begins first.
            times: By what the greatest number of records of a batch is multiplied.
        """

    def lag(
        self, published: Iterable[LandedFile], begun: Iterable[LandedFile] = (), *, timed: bool = False
    ) -> Lag:
        """What waits after the published ranges; ``timed``: also since when, if that takes more work."""

    def gone(self, planned: Sequence[LandedFile]) -> list[str]:
        """The names of the ranges that the stream does not hold any more as they were planned."""

    def lines(self, session: SparkSession, planned: Sequence[LandedFile]) -> DataFrame:
        """The records of planned ranges as lazy lines: see ``decoders.lines.LineReader``.

        A second reading must give the same records. A source with a method ``release`` may keep them until it
        is called: after each batch.
        """


@runtime_checkable
class ReadsFew(Protocol):
    """A source of streams that can read few records without Spark."""

    def few_lines(self, planned: Sequence[LandedFile]) -> pa.Table | None:
        """The records of planned ranges as lines, in Arrow; None if Spark must read them: see ``lines``."""


@runtime_checkable
class TellsMetadata(Protocol):
    """A source of streams that tells facts of its records beside their values, such as their keys."""

    def metadata_kinds(self) -> Mapping[str, T.DataType]:
        """The types of the columns with these facts; none where the declaration names none."""


@runtime_checkable
class NamesSchemas(Protocol):
    """A source whose records may name schemas of a registry."""

    def row_schemas(self) -> list[str]:
        """The schemas of the rows that were read last, by version; none where records are no such rows."""

    def keep_schemas(self, batch: int) -> None:
        """Keep the schemas that records of this batch were the first to name."""


class GivesExtracts(FileSource, Protocol):
    """A source of files, each of which is the whole table at one time."""

    def order_of(self, file: LandedFile) -> tuple[datetime, str]:
        """The time and name by which an extract is ordered among the others; never the clock."""


def holds_records(planned: LandedFile) -> bool:
    """Whether a range of a stream has more than no record, by its path."""
    first, end = planned.path.split("/")[-2].split("-")
    return int(first) < int(end)


def lies_in(file: str, planned: LandedFile) -> bool:
    """Whether the ``file`` of a record's ``_position`` is a landed file, or a place in a planned range."""
    return file == planned.name or file.startswith(f"{planned.name}:")


def gone_from(source: FileSource, planned: Sequence[LandedFile]) -> list[str]:
    """The names of the files or ranges that a source no longer has as they were planned."""
    if isinstance(source, StreamSource):
        return source.gone(planned)
    there = set(source.files())
    return [f.name for f in planned if f not in there]


class FolderSource(Generic[_C]):
    """What the sources of this package share: a table's files lie in one folder, and are of one load."""

    gives: ClassVar[Literal["changes", "extracts", "ranges"]] = "changes"
    load: ClassVar[Load] = "changes"

    def __init__(self, config: _C, name: TableName, table: TableConfig) -> None:
        """Store the declarations; no file is listed yet."""
        self._config, self._name, self._table = config, name, table

    def _listed(self, *patterns: str, shared: bool = False) -> list[LandedFile]:
        """The landed files by their names; ``shared``: those of all tables lie together."""
        root = self._config.path.rstrip("/")
        folder = root if shared else f"{root}/{self._table.entity}"
        found = list_files(folder, patterns, table=self._name, within=self._config.path)
        return sorted(found, key=lambda f: (f.name, f.path))

    def load_of(self, file: LandedFile) -> Load:  # noqa: ARG002 - every file is one
        """All files are of one load."""
        return self.load

    @property
    def options(self) -> Mapping[Load, CsvOptions]:
        """The declared CSV options; the defaults where the source has no text files."""
        config = self._config
        return {
            load: config.csv_for(load) if isinstance(config, FileSourceConfig) else CsvOptions()
            for load in LOADS
        }

    @property
    def headers(self) -> Mapping[Load, bool]:
        """Text files have a header, unless they are declared without one."""
        return {load: csv.header is not False for load, csv in self.options.items()}

    @property
    def unnamed_columns(self) -> Mapping[Load, Sequence[str]]:
        """The columns of ``types``, in their order."""
        return {load: list(self._table.types) for load in LOADS}

    def control(self, source_columns: Sequence[str]) -> frozenset[str]:  # noqa: ARG002
        """No column describes the change."""
        return frozenset()

    def _refuse_lack(self, shape: FileShape, missing: Sequence[str], key: str = "") -> None:
        """Refuse a file with rows that lacks columns, which the ``key`` of its declaration names."""
        if missing and shape.has_rows is not False:
            found = [name for name, _ in shape.columns]
            place = shape.file.name + (f", for {key}" if key else "")
            raise MissingColumnError(table=self._name, missing=missing, found=found, place=place)

    def _unless_chosen(self, names: Iterable[str | None]) -> frozenset[str]:
        """The names that are given, without those that the table's ``columns`` list."""
        wanted = self._table.columns
        chosen = set(wanted.include or ()) if wanted else set()
        return frozenset(name for name in names if name and name not in chosen)
