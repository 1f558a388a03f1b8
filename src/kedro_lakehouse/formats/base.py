"""What every table format offers, and the phases that a commit goes through."""

from __future__ import annotations

import contextlib
import logging
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, Protocol, runtime_checkable

from kedro_lakehouse.errors import CommitUnknownError
from kedro_lakehouse.ops.report import HELD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import types as T

    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.ops.report import CommitReport
    from kedro_lakehouse.session.catalog import MetadataCatalog

Phase = Literal["planned", "staged", "published", "acknowledged"]

_phases: Final = logging.getLogger("kedro_lakehouse.phase")


def enter_phase(phase: Phase, table: object, stage: str, batch: int) -> None:
    """Record that a commit of a table's stage has reached a phase: what follows has not happened yet.

    planned: the batch is in the ledger; staged: its rows are on a branch that no reader sees;
    published: data and bookmark are visible; acknowledged: its row is in ``lake.ops.batches``.
    """
    facts = {"phase": phase, "table": str(table), "stage": stage, "batch": batch}
    _phases.debug("%s %s: batch %s %s", table, stage, batch, phase, extra=facts)


@dataclass(frozen=True, kw_only=True)
class TableState:
    """A table as its newest metadata tells."""

    columns: Mapping[str, T.DataType]
    bookmark: CommitReport | None
    snapshot_id: int | None
    """The newest state that can be read and has other rows than the one before: no compaction of one."""
    snapshot_time: int | None = None
    """When that snapshot was published, in milliseconds of the epoch."""
    rows: int
    branches: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    uuid: str = ""
    """Tells the table from one that is made later under its name."""
    version: str = ""
    """Tells this published state from every other one of the table: a stage belongs to exactly one."""

    @property
    def batch(self) -> int:
        """The last batch that the table holds; 0 where it holds none."""
        return self.bookmark.batch if self.bookmark else 0

    @property
    def is_held(self) -> bool:
        """Whether a rollback lets no run change the table until it is released."""
        return bool(self.properties.get(HELD))


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """What metadata tells of some files: at most so many rows, and between which values columns lie."""

    rows: int
    ranges: Mapping[str, tuple[Any, Any]]


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a table lies on disk."""

    partition_by: Sequence[str] = ()
    sort_by: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    identity: Sequence[str] = ()
    """The columns that identify a row; none where rows are only ever added or replaced as a whole."""

    @property
    def sorts_writes(self) -> bool:
        """Whether a write sorts the whole of what it writes, for which rows are read twice."""
        return bool(self.sort_by) or self.properties.get("write.distribution-mode") == "range"


@dataclass(frozen=True, kw_only=True)
class Capabilities:
    """What a format can do: what it says yes to is proved by the contract suite, the rest it refuses."""

    merge: bool = True
    """Tables with keys: rows are replaced and removed by key, in one commit with the bookmark."""
    staged_audit: bool = True
    """What is written is audited before any reader sees it; without it, what is planned is."""
    as_of: bool = True
    """Tables can be read as they were at a time or in a snapshot."""
    evolve: bool = True
    """Columns and struct fields can be added to a table, and types widened."""
    drop_columns: bool = True
    """Columns can leave a table."""
    partition_transforms: bool = True
    """Partitions by a function of a column, such as days(ts) or bucket(8, id); else by columns only."""
    views: bool = True
    """A view beside a history is stored in the catalog; else the session registers it."""
    safe_without_lease: bool = True
    """A commit is safe by itself on every store; else one to S3 needs the lease, and confirms it first."""
    in_catalog: bool = False
    """Its tables are Iceberg's in catalog ``lake``: there they are found, read and dropped without a JVM."""
    glue_provider: Literal["delta", "hudi"] | None = None
    """What the Glue Data Catalog is told that its tables are; None where that is not told by commits."""
    maintenance: bool = True
    """Small files are compacted, and old snapshots expire."""
    spark: tuple[str, ...] = ("3.5", "4.1")
    """The Spark lines that it runs on."""


@dataclass(frozen=True, kw_only=True)
class FormatContext:
    """What a format is made with; nothing of it is opened yet."""

    session: Callable[[], SparkSession]
    catalog: MetadataCatalog
    lakehouse: str
    """The folder or address below which the tables lie."""
    run_id: str
    correlation_id: str
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    """The environment's settings of Spark: where object stores are."""


class Stage(Protocol):
    """One change of a table in the making: one of append, replace, replace_where and merge, then publish.

    A stage belongs to the state that it was opened on. Once another commit is published, the stage can
    not be: ``publish`` raises ``CommitConflictError``, whether its rows were written before or after that.
    """

    table: TableName
    has_new_rows: bool

    @property
    def is_open(self) -> bool:
        """Whether anything was staged."""

    def append(self, rows: DataFrame) -> None:
        """Stage rows that are added; what they were observed for is known afterwards."""

    def replace(self, rows: DataFrame) -> None:
        """Stage rows that stand in the place of all that are there; the frame may read the table itself."""

    def replace_where(self, condition: str, rows: DataFrame) -> None:
        """Stage rows that stand in the place of those that meet a condition of SQL."""

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
            rows_to_delete: The columns ``on`` of rows that the table has; None: nothing is deleted.
            rows: New rows with all their columns; None: nothing is appended.
            on: Columns that identify a row.
            near: Ranges of columns of the rows to delete: other files need not be read.
        """

    def staged(self) -> DataFrame:
        """The whole table as it is staged."""

    def appended(self) -> DataFrame:
        """The rows that were staged to come."""

    def written(self, columns: Sequence[str]) -> pa.Table | None:
        """Columns of the rows that were staged to come, read from their files without Spark.

        None where that is not the cheaper way: they are too many, or in no files of their own.
        """

    def rows(self) -> int:
        """How many rows the table has with an append or a replacement that is staged; asked of metadata."""

    def expect(self, rows: int) -> None:
        """Compare the staged table's number of rows; where only the commit can tell it, it is undone.

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
        """Make the staged change and the bookmark visible in one commit; the new snapshot's id.

        In the same commit ``properties`` are set, and the columns ``without`` leave the table. Without a
        staged change the bookmark and the properties alone are.

        Raises:
            CommitConflictError: The table is not in the state any more that the stage was opened on; nothing
                was published.
            CommitUnknownError: There was no answer; look for the bookmark before anything else.
        """

    def drop(self) -> None:
        """Drop the stage; published rows are untouched, and another change can be staged."""


class TableFormat(Protocol):
    """How tables of one format are kept; made with a ``FormatContext``.

    Every method takes the name of a stored table. A ``TableState`` is read anew at every call.
    """

    name: ClassVar[str]
    capabilities: ClassVar[Capabilities]

    def __init__(self, context: FormatContext) -> None: ...

    @classmethod
    def lacking(cls, spark_conf: Mapping[str, str]) -> str | None:
        """What the environment's Spark settings lack for this format, as a sentence; None where nothing."""

    def state(self, table: TableName) -> TableState | None:
        """Where a table stands, or None where there is none."""

    def read(self, table: TableName) -> DataFrame:
        """The published table as a lazy frame."""

    def read_at(self, table: TableName, time: datetime) -> DataFrame:
        """The table as it was published at a time."""

    def sql(self, table: TableName) -> str:
        """The table's quoted path, to stand behind FROM."""

    def rows_at(self, table: TableName, snapshot_id: int) -> str:
        """SQL text of a table as it was in one snapshot, to stand behind FROM."""

    def holds_snapshot(self, table: TableName, snapshot_id: int) -> bool:
        """Whether a table can still be read as it was in a snapshot."""

    def may_hold(self, table: TableName, column: str, low: object, high: object) -> bool:
        """Whether a table may hold values of a column between two bounds; yes where metadata cannot tell."""

    def bounds(self, table: TableName, columns: Sequence[str], where: str, low: int, high: int) -> Bounds:
        """How many rows, and which values of columns, may have ``where`` in a range: by metadata alone."""

    def create(self, table: TableName, columns: Mapping[str, T.DataType], layout: Layout) -> None:
        """Create the table where it does not exist; starts no job."""

    def evolve(self, table: TableName, columns: Mapping[str, T.DataType], state: TableState) -> None:
        """Add missing columns and struct fields and widen types; what is there already stays.

        Raises:
            IncompatibleTypeError: A column would have to become a type that loses values.
            CommitConflictError: Another writer changed the table meanwhile.
        """

    def ensure_view(self, view: TableName, definition: str, digest: str) -> bool:
        """Make a view, unless it is there with this digest of its definition; whether it was made.

        Raises:
            UnsupportedError: A table bears the view's name.
        """

    def uuid(self, table: TableName) -> str | None:
        """What tells a table from one that is made later under its name; None where there is none."""

    def drop(self, table: TableName, *, uuid: str | None = None) -> None:
        """Drop a table with its files; with ``uuid`` only if it is still that one.

        No catalog compares and drops in one step: between the two another run may make the table anew.
        """

    def stage(self, table: TableName, state: TableState | None) -> AbstractContextManager[Stage]:
        """Open a stage on one published state of the table; what the block leaves unpublished is dropped.

        A stage that another run has open is left alone. Publishing removes those that were opened on
        states before it, a dead run's among them: none of them can be published any more.
        """


@runtime_checkable
class KeepsCommits(Protocol):
    """A table format that tells of earlier commits: rows of ``lake.ops.batches`` are made anew from them."""

    def commits(self, table: TableName) -> Iterator[tuple[CommitReport, int | None]]:
        """The published commits that the table still keeps, the newest first: what each did, its snapshot.

        Lazily: the newest one costs no walk through all.
        """


@contextlib.contextmanager
def dropped_on_failure(stage: Stage) -> Iterator[None]:
    """Drop a stage where the block fails; what may be committed is never cleaned up."""
    try:
        yield
    except CommitUnknownError:
        raise
    except BaseException:
        stage.drop()
        raise


def stage_branch(run_id: str) -> str:
    """A new name for the branch on which a run stages one commit."""
    return f"stage_{run_id}_{uuid.uuid4().hex[:8]}"


def is_stage_branch(name: str) -> bool:
    """Tell whether a branch is a stage of some run."""
    return name.startswith("stage_")
