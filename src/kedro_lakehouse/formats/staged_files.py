"""Stages for formats without branches: the staged rows lie in files that no reader looks at."""

from __future__ import annotations

import contextlib
import logging
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self

from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.errors import AuditFailedError, CommitConflictError, CommitUnknownError
from kedro_lakehouse.formats.base import dropped_on_failure
from kedro_lakehouse.formats.hadoop_files import delete_folder, folders_in, parquet_rows
from kedro_lakehouse.names import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession

    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.ops.report import CommitReport

logger = logging.getLogger(__name__)

Kind = Literal["append", "replace", "replace_where", "merge"]

MARK: Final = "__change"
"""Column of a merge's staged rows: what happens to the table's row with the same ``on`` columns."""
_FEW: Final = 500_000
"""Up to this many rows are read faster without a Spark job."""
ADDED, CHANGED, GONE = "added", "changed", "gone"


@dataclass(frozen=True, kw_only=True)
class StagedChange:
    """The one change that a stage holds, for a format to commit.

    Schema:
        rows: the columns of the new rows. Those of a merge also have ``MARK``: ``added`` if the table
            must have no row equal in ``on``, ``changed`` if it must have one, which is replaced,
            ``gone`` if it must have one, which is deleted (columns not in ``on`` are null then).
    """

    kind: Kind
    files: str
    rows: DataFrame
    condition: str = ""
    on: Sequence[str] = ()
    near: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    def new_rows(self) -> DataFrame:
        """The rows that the change adds, and those that it puts in the place of others."""
        return self.rows.where(_has_mark(ADDED, CHANGED)).drop(MARK) if self.kind == "merge" else self.rows

    def applied_to(self, published: DataFrame) -> DataFrame:
        """The whole table with the change applied: published rows less deleted ones, plus new ones."""
        if self.kind == "replace":
            return self.new_rows()
        kept = published
        if self.kind == "replace_where":
            kept = kept.where(f"NOT coalesce(({self.condition}), false)")
        elif self.kind == "merge":
            rows_to_delete = self.rows.where(_has_mark(CHANGED, GONE)).select(*map(quote, self.on))
            kept = kept.join(rows_to_delete, [*self.on], "left_anti").select(*map(quote, kept.columns))
        return kept.unionByName(self.new_rows(), allowMissingColumns=True)


class Commit(Protocol):
    """How a format publishes a staged change: in exactly one commit, with the bookmark in it."""

    def __call__(
        self,
        change: StagedChange | None,
        report: CommitReport,
        properties: Mapping[str, str],
        without: Sequence[str],
        rows: int,
    ) -> int | None:
        """Commit the change, after which the table has ``rows`` rows; return the new snapshot's id.

        Raises the errors that ``Stage.publish`` raises.
        """
        ...


class StagedFiles:
    """A stage whose rows are written once, as parquet files in a folder beside the table.

    Each stage has a folder of its own. Opening a stage touches no other folder. Publishing deletes the
    folders that existed before the commit: their stages were opened on earlier states, so none of them
    can be published any more.
    """

    def __init__(  # noqa: PLR0913 - what a stage needs to know of its format
        self,
        session: SparkSession,
        table: TableName,
        namespace: str,
        *,
        run_id: str,
        before: int,
        columns: Mapping[str, T.DataType],
        published: Callable[[], DataFrame],
        is_current: Callable[[], bool],
        commit: Commit,
    ) -> None:
        """Store where the stage will be; nothing is written yet.

        Args:
            namespace: The folder of the table's namespace, in which the staged files will be.
            run_id: The run that stages; its id is part of the folder's name.
            before: Row count of the published table.
            columns: The table's columns; the staged rows have just these, in this order.
            published: Returns the table's published rows as a lazy frame.
            is_current: Returns whether the table is still in the state that the stage is opened on.
            commit: Publishes the change.
        """
        self._session, self.table, self._namespace = session, table, namespace
        self._folder = stage_folder(namespace, table, run_id)
        self._before, self._columns = before, columns
        self._published, self._is_current, self._commit = published, is_current, commit
        self._change: StagedChange | None = None
        self._written = 0
        self._has_files = False
        self._rows: int | None = None
        self.has_new_rows = False

    @contextlib.contextmanager
    def opened(self) -> Iterator[Self]:
        """Give the stage to the block; what the block leaves unpublished is dropped.

        Raises:
            CommitConflictError: The block failed, and the table is no longer in the state that the stage
                was opened on.
        """
        with dropped_on_failure(self), self._conflict_told():
            yield self
        self.drop()

    @contextlib.contextmanager
    def _conflict_told(self) -> Iterator[None]:
        """Raise any failure as ``CommitConflictError`` if another commit was published meanwhile.

        That commit deleted our staged files, so whatever failed then failed because of it: also an audit
        that counts too few rows.
        """
        try:
            yield
        except (CommitConflictError, CommitUnknownError):
            raise
        except Exception as error:
            if self._is_current():
                raise
            raise CommitConflictError(table=self.table, attempts=1) from error

    @property
    def is_open(self) -> bool:
        """Whether anything was staged."""
        return self._change is not None

    def append(self, rows: DataFrame) -> None:
        """Write the rows into the stage; one Spark job."""
        self._stage("append", rows)

    def replace(self, rows: DataFrame) -> None:
        """Write the rows into the stage; one Spark job, which may read the table itself."""
        self._stage("replace", rows)

    def replace_where(self, condition: str, rows: DataFrame) -> None:
        """Write the rows into the stage; one Spark job."""
        self._stage("replace_where", rows, condition=condition)

    def merge(
        self,
        rows_to_delete: DataFrame | None,
        rows: DataFrame | None,
        on: Sequence[str],
        *,
        near: Mapping[str, tuple[Any, Any]] | None = None,
    ) -> None:
        """Write the new rows and the ``on`` columns of the rows to delete into the stage; one Spark job."""
        if rows_to_delete is None:
            if rows is not None:
                self._stage("append", rows)
            return
        marked = (
            _marked_rows(rows_to_delete, rows, on)
            if rows is not None
            else rows_to_delete.withColumn(MARK, F.lit(GONE))
        )
        self._stage("merge", marked, on=on, near=near or {})
        self.has_new_rows = rows is not None

    def _stage(self, kind: Kind, rows: DataFrame, **facts: Any) -> None:
        assert self._change is None, f"{self.table}: a stage holds one change"  # noqa: S101
        columns = dict(self._columns) | ({MARK: T.StringType()} if kind == "merge" else {})
        schema = T.StructType([T.StructField(name, type_) for name, type_ in columns.items()])
        files = f"{self._folder}/{uuid.uuid4().hex}"
        self._has_files = True
        rows.to(schema).write.parquet(files)
        staged = self._session.read.schema(schema).parquet(files)
        self._change = StagedChange(kind=kind, files=files, rows=staged, **facts)
        self._written = parquet_rows(self._session, files)
        self._rows = None
        self.has_new_rows = True

    def staged(self) -> DataFrame:
        """The whole table with the staged change applied: published rows less deleted ones, plus new ones."""
        published = self._published()
        return published if self._change is None else self._change.applied_to(published)

    def appended(self) -> DataFrame:
        """The new rows of the staged change, read back from their files."""
        return self._published().limit(0) if self._change is None else self._change.new_rows()

    def written(self, columns: Sequence[str]) -> pa.Table | None:
        """Columns of the new rows, if they are few and their files are on a local disk; else None."""
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        change = self._change
        if change is None or "://" in change.files or self._written > _FEW:
            return None
        marked = change.kind == "merge"
        rows = pq.read_table(change.files, columns=[*columns, *([MARK] if marked else [])])
        return rows.filter(pc.not_equal(rows[MARK], GONE)).select(list(columns)) if marked else rows

    def rows(self) -> int:
        """Row count of the table with the staged change applied; of append and replace by metadata alone."""
        if self._rows is None:
            self._rows = self._counted_rows()
        return self._rows

    def _counted_rows(self) -> int:
        change = self._change
        if change is None:
            return self._before
        if change.kind == "append":
            return self._before + self._written
        if change.kind == "replace":
            return self._written
        if change.kind == "replace_where":
            return self._before - self._published().where(change.condition).count() + self._written
        marked: dict[str, int] = {r[MARK]: r["count"] for r in change.rows.groupBy(MARK).count().collect()}
        return self._before + marked.get(ADDED, 0) - marked.get(GONE, 0)

    def expect(self, rows: int) -> None:
        """Check that the staged table has ``rows`` rows.

        What a merge presumes of the table (which rows exist, which do not) is not checked here. Where the
        format has ``staged_audit``, its commit checks it, and commits nothing if it is wrong.

        Raises:
            AuditFailedError: It has another number of rows.
        """
        if (found := self.rows()) != rows:
            raise AuditFailedError(
                table=self.table, batch=0, check="row arithmetic", expected=rows, found=found
            )

    def publish(
        self,
        report: CommitReport,
        *,
        properties: Mapping[str, str] | None = None,
        without: Sequence[str] = (),
    ) -> int | None:
        """Publish the staged change and the bookmark in one commit; return the new snapshot's id.

        Raises:
            CommitConflictError: Another writer was faster; nothing was published.
            CommitUnknownError: There was no answer; look for the bookmark before anything else.
            AuditFailedError: The table is not what a merge presumed; nothing was published.
        """
        earlier = set(stages_of(self._session, self._namespace, self.table)) - {self._folder}
        with self._conflict_told():
            snapshot = self._committed(report, properties or {}, without)
        self.drop()
        for folder in sorted(earlier):
            self._clear(folder)
        return snapshot

    def _committed(
        self, report: CommitReport, properties: Mapping[str, str], without: Sequence[str]
    ) -> int | None:
        return self._commit(self._change, report, properties, without, self.rows())

    def drop(self) -> None:
        """Drop the staged files; published rows are untouched, and another change can be staged."""
        if self._has_files:
            self._clear(self._folder)
        self._change, self._rows, self.has_new_rows, self._has_files = None, None, False, False

    def _clear(self, folder: str) -> None:
        """Delete the files of a finished stage; what cannot be deleted is left to the next commit."""
        from py4j.protocol import Py4JError

        try:
            delete_folder(self._session, folder)
        except Py4JError as error:  # only a warning: the commit's outcome is known
            logger.warning("%s: the staged files in %s could not be deleted: %s", self.table, folder, error)


def stage_folder(namespace: str, table: TableName, run_id: str) -> str:
    """A new folder for the files of one stage of a run, beside the table in its namespace's folder.

    Names of tables have no dot, so a stage is never mistaken for a stage of another table.
    """
    return f"{namespace}/.stage_{table.table}.{run_id}.{uuid.uuid4().hex[:8]}"


def stages_of(session: SparkSession, namespace: str, table: TableName) -> list[str]:
    """The folders of all stages of a table that have files, of live runs and of dead ones."""
    return folders_in(session, namespace, f".stage_{table.table}.")


def drop_stages(session: SparkSession, namespace: str, table: TableName) -> None:
    """Delete the files of all stages of a table that is dropped."""
    for folder in stages_of(session, namespace, table):
        delete_folder(session, folder)


def _marked_rows(rows_to_delete: DataFrame, rows: DataFrame, on: Sequence[str]) -> DataFrame:
    """The new rows and the rows to delete, joined by their ``on`` columns and marked with ``MARK``."""
    identity = [F.col(quote(c)).alias(f"__on{i}") for i, c in enumerate(on)]
    old = rows_to_delete.select(*identity, F.lit(True).alias("__old"))
    new = rows.withColumn("__new", F.lit(True))
    same = F.lit(True)
    for i, name in enumerate(on):
        same &= F.col(quote(name)) == F.col(f"__on{i}")
    mark = F.when(F.col("__new").isNull(), GONE).when(F.col("__old").isNull(), ADDED).otherwise(CHANGED)
    at = {name: F.coalesce(F.col(quote(name)), F.col(f"__on{i}")) for i, name in enumerate(on)}
    kept = [at[c].alias(c) if c in at else F.col(quote(c)) for c in rows.columns]
    return new.join(old, same, "full_outer").select(*kept, mark.alias(MARK))


def _has_mark(*marks: str) -> Column:
    return F.col(MARK).isin(*marks)
