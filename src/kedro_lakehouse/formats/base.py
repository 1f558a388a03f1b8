"""The interface of a table format, and the phases of a commit."""

from __future__ import annotations

import contextlib
import logging
import uuid
from dataclasses import dataclass, field
from itertools import groupby
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, runtime_checkable

from kedro_lakehouse.errors import CommitUnknownError
from kedro_lakehouse.ops.report import HELD, CommitReport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import types as T

    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.session.catalog import MetadataCatalog

Phase = Literal["planned", "staged", "published", "acknowledged"]

_phases: Final = logging.getLogger("kedro_lakehouse.phase")


def enter_phase(phase: Phase, table: object, stage: str, batch: int) -> None:
    """Log that a commit has reached a phase; the phases after it have not happened yet.

    planned: the batch is in the ledger; staged: its rows are written where no reader sees them;
    published: data and bookmark are visible; acknowledged: its row is in ``lake.ops.batches``.
    """
    facts = {"phase": phase, "table": str(table), "stage": stage, "batch": batch}
    _phases.debug("%s %s: batch %s %s", table, stage, batch, phase, extra=facts)


@dataclass(frozen=True, kw_only=True)
class TableState:
    """The published state of a table, as its newest metadata describes it."""

    columns: Mapping[str, T.DataType]
    bookmark: CommitReport | None
    snapshot_id: int | None
    """The newest readable snapshot that changed rows; one that only compacted files is passed over."""
    snapshot_time: int | None = None
    """When that snapshot was published, in milliseconds since the epoch."""
    rows: int
    branches: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    uuid: str = ""
    """Identifies the table: a table created later under the same name has another uuid."""
    version: str = ""
    """Identifies this published state among all states of the table; a stage belongs to exactly one."""

    @property
    def batch(self) -> int:
        """The number of the last batch that the table holds; 0 if it holds none."""
        return self.bookmark.batch if self.bookmark else 0

    @property
    def is_held(self) -> bool:
        """Whether the table is on hold: after a rollback no run may change it until it is released."""
        return bool(self.properties.get(HELD))


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What metadata says about some files: the most rows, and the lowest and highest value of columns."""

    rows: int
    ranges: Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The physical layout of a table: partitions, sort order and properties."""

    partition_by: Sequence[str] = ()
    sort_by: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    identity: Sequence[str] = ()
    """The columns that identify a row; empty if rows are only ever appended or replaced as a whole."""

    @property
    def sorts_writes(self) -> bool:
        """Whether each write sorts all the rows that it writes; Spark reads them twice for that."""
        return bool(self.sort_by) or self.properties.get("write.distribution-mode") == "range"


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a format can do. The contract suite proves what is declared; the format refuses the rest."""

    merge: bool = True
    """Tables with keys: rows are replaced and deleted by key, in one commit with the bookmark."""
    staged_audit: bool = True
    """Rows are audited after they are written and before a reader sees them; if not, the plan is audited."""
    as_of: bool = True
    """Tables can be read as of a time or a snapshot."""
    evolve: bool = True
    """Columns and struct fields can be added to a table, and types widened."""
    drop_columns: bool = True
    """Columns can be dropped from a table."""
    follows_references: bool = True
    """Rows can follow a reference that changes: events of a change log become others of equal order."""
    partition_transforms: bool = True
    """Partitions by a function of a column, such as days(ts) or bucket(8, id); if not, by columns only."""
    views: bool = True
    """The view on a history table is stored in the catalog; if not, the session registers it."""
    safe_without_lease: bool = True
    """A commit is safe by itself on every store; if not, one to S3 needs the lease and confirms it first."""
    in_catalog: bool = False
    """Its tables are Iceberg tables of catalog ``lake``: found, read and dropped there without a JVM."""
    glue_provider: Literal["delta", "hudi"] | None = None
    """The kind of table that commits register in the Glue Data Catalog; None if they register nothing."""
    maintenance: bool = True
    """Small files are compacted, and old snapshots expire."""
    keeps_published: bool = False
    """Published snapshots stay readable by a tag each when older ones expire: see ``KeepsPublished``."""
    archive_properties: Mapping[str, str] = field(default_factory=dict)
    """Table properties of an archive, whose rows are written once and seldom read."""
    spark: tuple[str, ...] = ("3.5", "4.1")
    """The lines of Spark that it runs on."""
    settings_file: str | None = None
    """The file of kedro-lakehouse whose Spark settings load it beside other formats; None if none does."""


@dataclass(frozen=True, kw_only=True)
class FormatContext:
    """What a format is created from; nothing in it is opened yet."""

    session: Callable[[], SparkSession]
    catalog: MetadataCatalog
    lakehouse: str
    """The folder or address that holds the tables."""
    run_id: str
    correlation_id: str
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    """The environment's Spark settings, which say where object stores are."""


class Stage(Protocol):
    """One unpublished change of a table: call one of append, replace, replace_where, merge, then publish.

    A stage belongs to the published state that it was opened on. Once another commit is published, this
    one cannot be: ``publish`` raises ``CommitConflictError``, whether its rows were written before or
    after that commit.
    """

    table: TableName
    has_new_rows: bool

    @property
    def is_open(self) -> bool:
        """Whether anything was staged."""

    def append(self, rows: DataFrame) -> None:
        """Stage rows to append. The metrics that Spark observes on ``rows`` are available afterwards."""

    def replace(self, rows: DataFrame) -> None:
        """Stage rows that replace all rows of the table; the frame may read the table itself."""

    def replace_where(self, condition: str, rows: DataFrame) -> None:
        """Stage rows that replace the rows that meet an SQL condition."""

    def merge(
        self,
        rows_to_delete: DataFrame | None,
        rows: DataFrame | None,
        on: Sequence[str],
        *,
        near: Mapping[str, tuple[Any, Any]] | None = None,
    ) -> None:
        """Stage: delete the rows whose ``on`` columns match ``rows_to_delete``, then append ``rows``.

        Args:
            rows_to_delete: The ``on`` columns of rows that the table has; None: nothing is deleted.
            rows: New rows with all their columns; None: nothing is appended.
            on: Columns that identify a row.
            near: For some columns, the lowest and highest value among the rows to delete, such as
                ``{"id": (1, 4)}``: files outside these ranges need not be read.
        """

    def staged(self) -> DataFrame:
        """The whole table with the staged change applied."""

    def appended(self) -> DataFrame:
        """The new rows of the staged change."""

    def written(self, columns: Sequence[str]) -> pa.Table | None:
        """Columns of the new rows, read from their files without Spark.

        None if Spark is the cheaper way: the rows are too many, or not in files of their own.
        """

    def rows(self) -> int:
        """Row count of the table with the staged append or replacement applied, from metadata."""

    def expect(self, rows: int) -> None:
        """Check that the staged table has ``rows`` rows.

        A format that can only check this while it commits does so in ``publish``, and undoes the commit if
        the check fails.

        Raises:
            AuditFailedError: It has another number of rows. Also raised by ``publish``.
        """

    def publish(
        self,
        report: CommitReport,
        *,
        properties: Mapping[str, str] | None = None,
        without: Sequence[str] = (),
    ) -> int | None:
        """Publish the staged change and the bookmark in one commit; return the new snapshot's id.

        The same commit sets ``properties`` and drops the columns ``without``. If nothing is staged, it
        publishes the bookmark and the properties alone.

        Raises:
            CommitConflictError: The table is no longer in the state that the stage was opened on; nothing
                was published.
            CommitUnknownError: There was no answer; look for the bookmark before anything else.
        """

    def drop(self) -> None:
        """Drop the stage; published rows are untouched, and another change can be staged."""


class TableFormat(Protocol):
    """One table format: how its tables are created, read and committed to; made from a ``FormatContext``.

    Every method takes the name of a stored table. Every call reads the newest metadata.

    A format that knows its table properties also has a class method ``property_problem(name, value)``: what
    is wrong with a declared one (``config.sources.TableProblem``), or None. Without it any property will do.
    """

    name: ClassVar[str]
    capabilities: ClassVar[Capabilities]

    def __init__(self, context: FormatContext) -> None: ...

    @classmethod
    def lacking(cls, spark_conf: Mapping[str, str]) -> str | None:
        """What the environment's Spark settings lack for this format, as a sentence; None if nothing."""

    def state(self, table: TableName) -> TableState | None:
        """The table's published state, or None if there is no such table."""

    def read(self, table: TableName) -> DataFrame:
        """The published table as a lazy frame."""

    def read_at(self, table: TableName, time: datetime) -> DataFrame:
        """The table as it was published at a time."""

    def sql(self, table: TableName) -> str:
        """The table's quoted name for a FROM clause."""

    def rows_at(self, table: TableName, snapshot_id: int) -> str:
        """SQL text for a FROM clause that reads the table as of one snapshot."""

    def holds_snapshot(self, table: TableName, snapshot_id: int) -> bool:
        """Whether the table can still be read as of a snapshot."""

    def may_hold(self, table: TableName, column: str, low: object, high: object) -> bool:
        """Whether the table may hold a value of a column between two bounds; True if metadata cannot say."""

    def bounds(self, table: TableName, columns: Sequence[str], where: str, low: int, high: int) -> Bounds:
        """Row count and value ranges of the rows whose column ``where`` may lie in a range, from metadata.

        Args:
            columns: The columns whose lowest and highest value is wanted.
            where: The column that selects rows.
            low: Its lowest value.
            high: Its highest value.
        """

    def create(self, table: TableName, columns: Mapping[str, T.DataType], layout: Layout) -> None:
        """Create the table if it does not exist; starts no Spark job."""

    def evolve(self, table: TableName, columns: Mapping[str, T.DataType], state: TableState) -> None:
        """Add missing columns and struct fields and widen types; existing columns stay.

        Raises:
            IncompatibleTypeError: A column would have to become a type that loses values.
            CommitConflictError: Another writer changed the table meanwhile.
        """

    def ensure_view(self, view: TableName, definition: str, digest: str) -> bool:
        """Create a view unless it exists with this digest of its definition; True if it was created.

        Raises:
            UnsupportedError: A table has the view's name.
        """

    def uuid(self, table: TableName) -> str | None:
        """The table's unique id: a later table of the same name has another one; None if no table exists."""

    def drop(self, table: TableName, *, uuid: str | None = None) -> None:
        """Drop a table with its files; with ``uuid`` only if it is still that one.

        No catalog can compare and drop in one step: in between, another run may create the table anew.
        """

    def stage(self, table: TableName, state: TableState | None) -> AbstractContextManager[Stage]:
        """Open a stage on one published state of the table; what the block leaves unpublished is dropped.

        Opening a stage leaves the stages of other runs alone. Publishing removes the stages that were
        opened on earlier states, also those of dead runs: none of them can be published any more.
        """


Place = tuple[str, int]
"""Where a row is: the path of its file, and its position in it."""


@dataclass(frozen=True, kw_only=True)
class PlacedRows:
    """Rows of a table as they were read without Spark, each with its place."""

    rows: pa.Table
    places: Sequence[Place]


@runtime_checkable
class WritesFiles(Protocol):
    """A table format that reads and writes few rows without Spark; its stages have the method ``put``."""

    def find_rows(
        self,
        table: TableName,
        state: TableState,
        among: Mapping[str, Sequence[Any]],
        *,
        most_bytes: int,
        near: tuple[str, Any, Any] | None = None,
    ) -> PlacedRows | None:
        """The rows whose columns have one of the given values each; None if Spark must look for them.

        Args:
            table: The stored table.
            state: Its state in which the rows are looked for.
            among: For some columns, the wanted values.
            most_bytes: How large the files that may hold such rows may be together.
            near: A column and two bounds; files that hold no value of it between them may be left out.

        Raises:
            CommitConflictError: The table is in another state by now.
        """

    def write_files(
        self, table: TableName, state: TableState, rows: pa.Table | None, gone: Sequence[Place]
    ) -> Any:
        """Write new rows, and the places of deleted ones, to files that no reader sees yet.

        Returns:
            What ``put`` of a stage on this state takes; None if Spark must write them.

        Raises:
            CommitConflictError: The table is in another state by now.
        """


@runtime_checkable
class ReadsFewRows(Protocol):
    """A table format that reads few rows of a snapshot without Spark."""

    def rows_among(
        self,
        table: TableName,
        snapshot_id: int,
        among: Mapping[str, Sequence[Any]],
        columns: Sequence[str],
        *,
        most_bytes: int,
    ) -> pa.Table | None:
        """Some columns of the rows at a snapshot whose columns have one of the given values each.

        None if Spark must look for them: there is too much to read, or the snapshot is gone.
        """


@runtime_checkable
class RenamesColumns(Protocol):
    """A table format that can rename columns without writing a row."""

    def rename_columns(self, table: TableName, names: Mapping[str, str]) -> None:
        """Rename columns of a stored table; ``names`` gives each one's new name by its present one."""


@runtime_checkable
class PurgesRows(Protocol):
    """A table format that can make deleted rows go from its files, so that an erasure is whole."""

    def purge(self, table: TableName, *, before: datetime) -> Sequence[str]:
        """Remove from all files what the published rows no longer hold; earlier states cannot be read then.

        Args:
            table: The stored table; without one nothing is done.
            before: Files of no state that are older than this are removed too: they are of stages that cannot
                be published any more.

        Returns:
            What keeps deleted rows and is not the format's to remove, a sentence each.

        Raises:
            CommitConflictError: A writer was faster; the call may be repeated.
        """


@runtime_checkable
class KeepsPublished(Protocol):
    """A table format that keeps published snapshots readable when older ones expire."""

    def keep_published(self, table: TableName, published: Sequence[int], keep: int) -> Mapping[str, int]:
        """Tag the newest published snapshots, and let earlier ones go, in one commit; starts no JVM.

        Args:
            table: The stored table.
            published: The states that commits published, the earliest first.
            keep: How many snapshots stay.

        Returns:
            The tags that were made, with the states that they are at.

        Raises:
            CommitConflictError: A writer was faster; nothing was changed.
        """


@runtime_checkable
class KeepsCommits(Protocol):
    """A table format that lists earlier commits, from which ``lake.ops.batches`` gets its unrecorded ones."""

    def commits(self, table: TableName) -> Iterator[tuple[CommitReport, int | None]]:
        """The published commits that the metadata still holds, newest first: report and snapshot of each.

        Lazy: taking only the newest one does not read all the others.
        """


def commits_of_batches(
    entries: Iterable[tuple[str | None, int | None]],
) -> Iterator[tuple[CommitReport, int | None]]:
    """The report of each commit of a batch, and the snapshot that it published; newest first.

    An entry that repeats the bookmark of the one before it in time, such as one that sets a property, is
    no commit of a batch. Lazy: only the entries that the taken commits need are read.

    Args:
        entries: Bookmark and snapshot of each published entry of ours, newest first.
    """
    for bookmark, repeated in groupby(entries, key=lambda entry: entry[0]):
        *_, (_, first) = repeated  # the oldest entry with this bookmark is the commit itself
        if report := CommitReport.from_property(bookmark):
            yield report, first


@contextlib.contextmanager
def dropped_on_failure(stage: Stage) -> Iterator[None]:
    """Drop the stage if the block fails; after ``CommitUnknownError`` it stays, for it may be committed."""
    try:
        yield
    except CommitUnknownError:
        raise
    except BaseException:
        stage.drop()
        raise


def stage_branch(run_id: str) -> str:
    """A new, unique name for the branch on which a run stages one commit."""
    return f"stage_{run_id}_{uuid.uuid4().hex[:8]}"


def is_stage_branch(name: str) -> bool:
    """Whether a branch is the stage of some run."""
    return name.startswith("stage_")
