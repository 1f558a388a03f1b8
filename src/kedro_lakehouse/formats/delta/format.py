"""Delta Lake: tables at a path, and commits whose rows are staged in files beside them."""

from __future__ import annotations

import importlib.util
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pyspark.sql import types as T

from kedro_lakehouse.changes.conversion import sql_type
from kedro_lakehouse.errors import CommitConflictError, UnsupportedError
from kedro_lakehouse.formats.at_paths import FormatAtPaths
from kedro_lakehouse.formats.base import Bounds, Capabilities, Layout, TableState, commits_of_batches
from kedro_lakehouse.formats.ddl import evolve_table, rename_in_table, storable
from kedro_lakehouse.formats.delta.commit import DeltaCommit
from kedro_lakehouse.formats.delta.entries import LOG_FOLDER
from kedro_lakehouse.formats.delta.log import KnownLogs, no_commit_yet, storage_options
from kedro_lakehouse.formats.delta.maintenance import RACED, DeltaMaintenance
from kedro_lakehouse.formats.delta.stage import DeltaStage
from kedro_lakehouse.formats.hadoop_files import delete_unfinished, is_there
from kedro_lakehouse.formats.literals import text
from kedro_lakehouse.formats.maintenance import races_lost_by
from kedro_lakehouse.formats.turn import no_turn, publish_turn
from kedro_lakehouse.names import TableName, quote
from kedro_lakehouse.ops.report import CommitReport
from kedro_lakehouse.ops.table_summary import TableSummary

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from kedro_lakehouse.formats.base import FormatContext, Place, PlacedRows, Stage
    from kedro_lakehouse.formats.delta.entries import WrittenFiles
    from kedro_lakehouse.formats.delta.log import DeltaLog

_BASE_PROPERTIES: Final = {
    "delta.columnMapping.mode": "name",
    "delta.enableDeletionVectors": "true",
    "delta.enableTypeWidening": "true",
    "delta.enableInCommitTimestamps": "true",
    # A cleaned log would lose the bookmark.
    "delta.enableExpiredLogCleanup": "false",
}
_OWN: Final = ("delta.", "kedro_lakehouse.")
_OF_ICEBERG: Final = "write.distribution-mode"
"""A property that the pipelines themselves put into a layout; Delta has none like it, so it is ignored."""
_EXTENSION: Final = "io.delta.sql.DeltaSparkSessionExtension"
_CATALOG: Final = "org.apache.spark.sql.delta.catalog.DeltaCatalog"


class DeltaFormat(FormatAtPaths):
    """Delta tables; their state and their commits are read from Delta's log."""

    name: ClassVar[str] = "delta"
    _stages = DeltaStage
    capabilities: ClassVar[Capabilities] = Capabilities(
        glue_provider="delta",
        partition_transforms=False,
        views=False,
        safe_without_lease=False,
        spark=("4.1",),
        settings_file="conf/delta/spark.yml",
    )

    def __init__(self, context: FormatContext) -> None:
        """Store how to open the session, and where the tables lie; nothing is opened yet."""
        super().__init__(context)
        self._logs = KnownLogs(storage_options(context.spark_conf, self._warehouse))
        self._turn = partial(publish_turn, self._leases) if "://" in self._warehouse else no_turn
        self.maintenance = DeltaMaintenance(context.session, self._log, self.path, self._turn)

    @classmethod
    def lacking(cls, spark_conf: Mapping[str, str]) -> str | None:
        """What the environment lacks for Delta; None if nothing."""
        if importlib.util.find_spec("deltalake") is None:
            return "the package deltalake is not installed (`pip install 'kedro-lakehouse[delta]'`)"
        loaded = spark_conf.get("spark.sql.extensions")
        if loaded is not None and _EXTENSION not in loaded:
            return f"spark.sql.extensions does not name {_EXTENSION}"
        if loaded is not None and spark_conf.get("spark.sql.catalog.spark_catalog") != _CATALOG:
            return f"spark.sql.catalog.spark_catalog is not {_CATALOG}"
        return None

    def _log(self, table: TableName) -> DeltaLog | None:
        return self._logs.open(table, self.path(table))

    def find_rows(
        self,
        table: TableName,
        state: TableState,
        among: Mapping[str, Sequence[Any]],
        *,
        most_bytes: int,
        near: tuple[str, Any, Any] | None = None,
    ) -> PlacedRows | None:
        """The rows whose columns have one of the given values each; None if Spark must look for them."""
        del near  # bounds of the fields of structs are not looked at here
        from kedro_lakehouse.formats.delta.rows import find_rows

        log = self._changed_by_files(table, state)
        return find_rows(log, Path(self.path(table)), among, most_bytes=most_bytes) if log else None

    def rows_among(
        self,
        table: TableName,
        snapshot_id: int,
        among: Mapping[str, Sequence[Any]],
        columns: Sequence[str],
        *,
        most_bytes: int,
    ) -> pa.Table | None:
        """Some columns of the rows at a version with one of the given values each; None: Spark must look."""
        from kedro_lakehouse.formats.delta.rows import find_rows, may_change_by_files

        log = self._log(table)
        there = log.at(snapshot_id) if log is not None and "://" not in self._warehouse else None
        if there is None or not may_change_by_files(there):
            return None
        found = find_rows(there, Path(self.path(table)), among, most_bytes=most_bytes)
        return None if found is None else found.rows.select(list(columns))

    def write_files(
        self, table: TableName, state: TableState, rows: pa.Table | None, gone: Sequence[Place]
    ) -> WrittenFiles | None:
        """Write new rows, and the places of deleted ones, to files; None if Spark must write them."""
        from kedro_lakehouse.formats.delta.rows import write_files

        log = self._changed_by_files(table, state)
        return write_files(log, Path(self.path(table)), rows, gone) if log else None

    def _changed_by_files(self, table: TableName, state: TableState) -> DeltaLog | None:
        """The log of a table that can be changed without Spark; it must be in a state."""
        from kedro_lakehouse.formats.delta.rows import may_change_by_files

        log = self._log(table)
        if log is None or log.state_version != state.version:
            raise CommitConflictError(table=table, attempts=1)
        return log if "://" not in self._warehouse and may_change_by_files(log) else None

    def state(self, table: TableName) -> TableState | None:
        """The table's published state, or None if there is no such table.

        Starts no JVM, unless others changed rows: those are counted by Spark.

        Raises:
            BookmarkGoneError: Somebody else cleaned the table's log.
        """
        log = self._log(table)
        if log is None:
            return None
        head = log.head
        note = head.note
        return TableState(
            columns=_columns(log),
            bookmark=CommitReport.from_property(note.bookmark) if note else None,
            snapshot_id=head.version if note else None,
            snapshot_time=head.time if note else None,
            rows=note.rows if note and head.alone else self._counted(table, log),
            properties=log.properties | (dict(note.properties) if note else {}),
            uuid=log.uuid,
            version=log.state_version,
        )

    def _counted(self, table: TableName, log: DeltaLog) -> int:
        """Row count of a table that others changed: Delta counts from the log, with deletion vectors."""
        return self.read(table).count() if log.rows() else 0

    def read(self, table: TableName) -> DataFrame:
        """The published table as a lazy frame."""
        self._names.register(table, self.path(table))
        return self._session().read.format("delta").load(self.path(table))

    def read_at(self, table: TableName, time: datetime) -> DataFrame:
        """The table as it was published at a time."""
        state = self.state(table)
        # Delta refuses times after the last commit, so from there on the newest version is read.
        if state and state.snapshot_time is not None and time.timestamp() * 1000 >= state.snapshot_time:
            return self.read(table)
        moment = time.isoformat(sep=" ", timespec="milliseconds")
        reader = self._session().read.format("delta").option("timestampAsOf", moment)
        return reader.load(self.path(table))

    def glance(self, table: TableName) -> TableSummary | None:
        """The table's summary; starts no JVM. Rows that others deleted by deletion vectors are counted."""
        log = self._log(table)
        if log is None:
            return None
        head = log.head
        bookmark = CommitReport.from_property(head.note.bookmark) if head.note else None
        return TableSummary(
            rows=head.note.rows if head.note and head.alone else log.rows(),
            columns=len(log.schema),
            size=log.size(),
            batch=bookmark.batch if bookmark else 0,
            head=bookmark.content_hash if bookmark else "",
            committed=datetime.fromisoformat(bookmark.committed_at) if bookmark else None,
        )

    def rows_at(self, table: TableName, snapshot_id: int) -> str:
        """SQL text for a FROM clause that reads the table as of one version."""
        return f"{self.sql(table)} VERSION AS OF {int(snapshot_id)}"

    def holds_snapshot(self, table: TableName, snapshot_id: int) -> bool:
        """Whether the log and the files of a version still exist."""
        now = self._log(table)
        then = now.at(snapshot_id) if now else None
        if now is None or then is None:
            return False
        # The files of the newest version exist in any case.
        return all(is_there(self._session(), file) for file in then.files - now.files)

    def may_hold(self, table: TableName, column: str, low: object, high: object) -> bool:
        """Whether the table may hold a value of a column between two bounds: by the log alone, no job."""
        log = self._log(table)
        return log is not None and log.may_hold(column, low, high)

    def bounds(self, table: TableName, columns: Sequence[str], where: str, low: int, high: int) -> Bounds:
        """Row count and value ranges of the rows whose column ``where`` may lie in a range, by the log."""
        log = self._log(table)
        return log.bounds(columns, where, low, high) if log else Bounds(rows=0, ranges={})

    def create(self, table: TableName, columns: Mapping[str, T.DataType], layout: Layout) -> None:
        """Create the table if it does not exist; ``sort_by`` clusters it.

        Raises:
            UnsupportedError: The layout has a transform, both partitions and an order, or a property
                that is not Delta's.
        """
        place = _placed(table, layout)
        fields = ", ".join(f"{quote(n)} {sql_type(storable(t))}" for n, t in columns.items())
        properties = _BASE_PROPERTIES | _properties(table, layout)
        given = ", ".join(f"{text(k)} = {text(v)}" for k, v in properties.items())
        self._make(
            table,
            f"CREATE TABLE IF NOT EXISTS delta.{quote(self.path(table))} ({fields}) USING delta{place} "
            f"TBLPROPERTIES ({given})",
        )
        self._names.register(table, self.path(table))

    def _make(self, table: TableName, statement: str) -> None:
        """Run the statement that creates a table, unless the table exists.

        One writer at a time does so. Otherwise a writer could mistake files that another one is just
        writing for those of a killed run, and delete them.
        """
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        session = self._session()
        with publish_turn(self._leases, table) as confirm:
            if self._log(table) is not None:
                return
            # Delta refuses to create a table where a killed CREATE TABLE left its folders.
            delete_unfinished(session, f"{self.path(table)}/{LOG_FOLDER}")
            confirm()
            try:
                session.sql(statement)
            except (Py4JError, PySparkException):
                if self._log(table) is None:
                    raise  # else another writer took the turn over and created it

    def evolve(self, table: TableName, columns: Mapping[str, T.DataType], state: TableState) -> None:
        """Add missing columns and struct fields and widen types; what is there already stays.

        Raises:
            CommitConflictError: Another writer changed the columns meanwhile, or dropped the table.
            IncompatibleTypeError: A column would have to become a type that loses values.
        """
        from pyspark.errors import PySparkException

        session, place = self._session(), f"delta.{quote(self.path(table))}"
        try:
            with self._turn(table) as confirm:
                confirm()
                evolve_table(session.sql, place, table, columns, state.columns)
        except PySparkException as error:
            log = self._log(table)
            if log is not None and _columns(log) == state.columns:
                raise
            raise CommitConflictError(table=table, attempts=1) from error

    def rename_columns(self, table: TableName, names: Mapping[str, str]) -> None:
        """Rename columns; data files, which know columns by their physical names, stay as they are."""
        with self._turn(table) as confirm:
            confirm()
            rename_in_table(self._session().sql, f"delta.{quote(self.path(table))}", names)

    def ensure_view(self, view: TableName, definition: str, digest: str) -> bool:
        """Register a view with the session unless it is registered with this digest; True if it was.

        Raises:
            UnsupportedError: A table has the view's name.
        """
        if self._log(view) is not None:
            raise UnsupportedError(
                what=f"The name {view} is a table's: no view can bear it.",
                remedy="Give the view another `name` in tables.yml.",
            )
        return super().ensure_view(view, definition, digest)

    def uuid(self, table: TableName) -> str | None:
        """The table's unique id: a later table of the same name has another one; None if no table exists."""
        log = self._log(table)
        return log.uuid if log else None

    def commits(self, table: TableName) -> Iterator[tuple[CommitReport, int | None]]:
        """The published commits that the log still holds, newest first, each with its version."""
        log = self._log(table)
        return commits_of_batches((note.bookmark, at) for note, at in log.notes()) if log else iter(())

    def purge(self, table: TableName, *, before: datetime) -> Sequence[str]:
        """Remove deleted rows from data files, and from the log the entries of all earlier versions.

        The bookmark is published once more, as the newest entry, so that it survives.
        """
        from kedro_lakehouse.formats.delta.purge import expire_log, remove_dead_files, rewrite_deleted_rows

        state = self.state(table)
        if state is None or state.bookmark is None:
            return []
        with races_lost_by(table, RACED), self._turn(table) as confirm:
            confirm()
            rewrite_deleted_rows(self._session(), self.path(table))
        with self.stage(table, self.state(table)) as stage:
            stage.publish(state.bookmark)
        if (log := self._log(table)) is not None:
            remove_dead_files(self.path(table), log, before)
            expire_log(self.path(table), log)
        return []

    def stage(self, table: TableName, state: TableState | None) -> AbstractContextManager[Stage]:
        """Open a stage on one published state of the table; what the block leaves unpublished is dropped."""
        log = self._log(table)
        commit = DeltaCommit(
            session=self._session(),
            table=table,
            path=self.path(table),
            planned=state.version if state else no_commit_yet(log.uuid if log else ""),
            log=partial(self._log, table),
            turn=self._turn,
        )
        before, columns = state.rows if state else 0, _columns(log) if log else {}
        return self._stage(table, commit, commit.is_current, before=before, columns=columns)


def _columns(log: DeltaLog) -> dict[str, T.DataType]:
    schema = T.StructType.fromJson({"type": "struct", "fields": log.schema})
    return {f.name: storable(f.dataType) for f in schema.fields}


def _placed(table: TableName, layout: Layout) -> str:
    if layout.partition_by and layout.sort_by:
        raise UnsupportedError(
            what=f"{table}: a Delta table has either partitions or an order of its rows.",
            remedy="Keep one of `partition_by` and `sort_by` in tables.yml.",
        )
    if transforms := [p for p in layout.partition_by if "(" in p]:
        raise UnsupportedError(
            what=f"{table}: Delta partitions by columns, not by {transforms[0]}.",
            remedy="Name a column in `partition_by`, or use `sort_by`, which clusters the table.",
        )
    if layout.partition_by:
        return f" PARTITIONED BY ({', '.join(map(quote, layout.partition_by))})"
    return f" CLUSTER BY ({', '.join(map(quote, layout.sort_by))})" if layout.sort_by else ""


def _properties(table: TableName, layout: Layout) -> dict[str, str]:
    given = {k: v for k, v in layout.properties.items() if k != _OF_ICEBERG}
    if foreign := [name for name in given if not name.startswith(_OWN)]:
        raise UnsupportedError(
            what=f"{table}: '{foreign[0]}' is not a property of Delta, whose names begin with 'delta.'.",
            remedy="Correct `properties` in tables.yml.",
        )
    return given
