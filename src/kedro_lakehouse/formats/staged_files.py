"""A commit in the making for formats without branches: its rows lie in files that no reader looks at."""

from __future__ import annotations

import contextlib
import logging
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self

from kedro_lakehouse.errors import AuditFailedError, CommitConflictError, CommitUnknownError
from kedro_lakehouse.formats.base import dropped_on_failure
from kedro_lakehouse.formats.hadoop_files import delete_folder, folders_in, parquet_rows
from kedro_lakehouse.names import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql import types as T

    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.ops.report import CommitReport

logger = logging.getLogger(__name__)

Kind = Literal["append", "replace", "replace_where", "merge"]

MARK: Final = "__change"
"""Column of a merge's staged rows: what becomes of the table's row of the same identity."""
_FEW: Final = 500_000
"""So many rows are read sooner without a Spark job."""
ADDED, CHANGED, GONE = "added", "changed", "gone"


@dataclass(frozen=True, kw_only=True)
class StagedChange:
    """The one change that a stage holds, for a format to commit.

    Schema:
        rows: the columns of the rows to come. A merge's have ``MARK`` beside them: ``added`` where the
            table must have no row equal in ``on``, ``changed`` where it must have one that is
            replaced, ``gone`` where it must have one that is removed (columns not in ``on`` are null).
    """

    kind: Kind
    files: str
    rows: DataFrame
    condition: str = ""
    on: Sequence[str] = ()
    near: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)


class Commit(Protocol):
    """How a format makes a staged change visible: in exactly one commit, with the bookmark in it."""

    def __call__(
        self,
        change: StagedChange | None,
        report: CommitReport,
        properties: Mapping[str, str],
        without: Sequence[str],
        rows: int,
    ) -> int | None:
        """Commit, after which the table has so many rows; the new snapshot's id.

        Raises what ``Stage.publish`` does.
        """
        ...


class StagedFiles:
    """A stage whose rows are written once, as parquet files in a folder beside the table.

    The folder is the stage's own. Opening a stage touches no other one. Publishing removes those that were
    there before the commit: they were opened on earlier states, so none of them can be published any more.
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
        """Remember where the stage will be; nothing is written yet.

        Args:
            namespace: The folder of the table's namespace, in which the staged files will be.
            run_id: The run that stages; the folder's name tells it.
            before: How many rows the published table has.
            columns: The table's columns; the staged rows have just these, in this order.
            published: Gives the table's published rows as a lazy frame.
            is_current: Tells whether the table is still in the state that the stage is opened on.
            commit: Makes the change visible.
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
            CommitConflictError: The block failed, and the table is not in the state any more that it was.
        """
        with dropped_on_failure(self), self._conflict_told():
            yield self
        self.drop()

    @contextlib.contextmanager
    def _conflict_told(self) -> Iterator[None]:
        """Tell a failure as a lost race where the table has moved on: who publishes removes our files.

        Whatever is missing then, rows that the audit counts among it, is so because of that.
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
        """Write the rows that come and the identities that go into the stage; one Spark job."""
        from pyspark.sql import functions as F

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
        from pyspark.sql import types as T

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
        """The whole table as it is staged: published rows less the rows_to_delete, and the new."""
        change = self._change
        if change is None:
            return self._published()
        if change.kind == "replace":
            return self.appended()
        kept = self._published()
        if change.kind == "replace_where":
            kept = kept.where(f"NOT coalesce(({change.condition}), false)")
        elif change.kind == "merge":
            rows_to_delete = change.rows.where(_has_mark(CHANGED, GONE)).select(*map(quote, change.on))
            kept = kept.join(rows_to_delete, [*change.on], "left_anti").select(*map(quote, kept.columns))
        return kept.unionByName(self.appended(), allowMissingColumns=True)

    def appended(self) -> DataFrame:
        """The rows that were staged to come, read back from their files."""
        change = self._change
        if change is None:
            return self._published().limit(0)
        if change.kind != "merge":
            return change.rows
        return change.rows.where(_has_mark(ADDED, CHANGED)).drop(MARK)

    def written(self, columns: Sequence[str]) -> pa.Table | None:
        """Columns of few rows that were staged to come, where the files are on a local disk; else None."""
        import pyarrow.compute as pc
        import pyarrow.parquet as pq

        change = self._change
        if change is None or "://" in change.files or self._written > _FEW:
            return None
        marked = change.kind == "merge"
        rows = pq.read_table(change.files, columns=[*columns, *([MARK] if marked else [])])
        return rows.filter(pc.not_equal(rows[MARK], GONE)).select(list(columns)) if marked else rows

    def rows(self) -> int:
        """How many rows the table has with what is staged; of an append or replacement by metadata alone."""
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
        """Compare the staged table's number of rows.

        What a merge presumes of the table (which rows are there, which are not) is checked by the
        commit itself, which does nothing where it is wrong.

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
        """Make the staged change and the bookmark visible in one commit; the new snapshot's id.

        Raises:
            CommitConflictError: Another writer was faster; nothing was published.
            CommitUnknownError: There was no answer; look for the bookmark before anything else.
            AuditFailedError: The table is not what a merge presumed; nothing was published.
        """
        earlier = set(stages_of(self._session, self._namespace, self.table)) - {self._folder}
        with self._conflict_told():
            snapshot = self._commit(self._change, report, properties or {}, without, self.rows())
        self.drop()
        for folder in sorted(earlier):
            self._clear(folder)
        return snapshot

    def drop(self) -> None:
        """Drop the staged files; published rows are untouched, and another change can be staged."""
        if self._has_files:
            self._clear(self._folder)
        self._change, self._rows, self.has_new_rows, self._has_files = None, None, False, False

    def _clear(self, folder: str) -> None:
        """Delete the files of a stage that is over; what cannot be deleted waits for the next commit."""
        from py4j.protocol import Py4JError

        try:
            delete_folder(self._session, folder)
        except Py4JError as error:  # it changes nothing: the outcome of the commit is known
            logger.warning("%s: the staged files in %s could not be deleted: %s", self.table, folder, error)


def stage_folder(namespace: str, table: TableName, run_id: str) -> str:
    """A folder for the files of one stage of a run, beside the table in its namespace's folder.

    Names of tables have no dot, so a stage is never taken for another table's.
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
    """The rows to append, marked where they replace a row to delete; and the other rows to delete."""
    from pyspark.sql import functions as F

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
    from pyspark.sql import functions as F

    return F.col(MARK).isin(*marks)
