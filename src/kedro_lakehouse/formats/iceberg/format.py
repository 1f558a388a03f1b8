"""Apache Iceberg: tables, and commits that are staged on a branch before any reader sees them."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kedro_lakehouse.errors import CommitConflictError, UnsupportedError
from kedro_lakehouse.formats.base import Bounds, Capabilities, TableState, dropped_on_failure, stage_branch
from kedro_lakehouse.formats.iceberg.files import earlier_commits, last_change, literal
from kedro_lakehouse.formats.iceberg.maintenance import IcebergMaintenance
from kedro_lakehouse.formats.iceberg.snapshots import IcebergSnapshots
from kedro_lakehouse.formats.iceberg.stage import IcebergStage, utilities_of, version_of
from kedro_lakehouse.formats.literals import text, transform
from kedro_lakehouse.names import CATALOG, TableName, quote
from kedro_lakehouse.ops.report import BOOKMARK, CommitReport
from kedro_lakehouse.ops.table_summary import TableSummary, glance
from kedro_lakehouse.session.catalog import rows_of
from kedro_lakehouse.session.jvm import java_class

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa
    from pyiceberg.table import Table
    from pyspark.sql import DataFrame
    from pyspark.sql import types as T

    from kedro_lakehouse.config.sources import TableProblem
    from kedro_lakehouse.formats.base import FormatContext, Layout, Place, PlacedRows
    from kedro_lakehouse.formats.iceberg.new_files import WrittenFiles

_BASE_PROPERTIES: Final = {
    "format-version": "2",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "50",
}
_DEFINITION: Final = "kedro_lakehouse.definition"
_EXTENSIONS: Final = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
CORRELATION_ID: Final = "kedro_lakehouse.correlation_id"
_SNAPSHOT_PROPERTY: Final = "spark.sql.iceberg.snapshot-property."


class IcebergFormat:
    """Tables of catalog ``lake``."""

    name: ClassVar[str] = "iceberg"
    capabilities: ClassVar[Capabilities] = Capabilities(
        in_catalog=True,
        keeps_published=True,
        archive_properties={
            "write.target-file-size-bytes": str(2**30),
            "write.parquet.compression-codec": "zstd",
            "write.parquet.compression-level": "9",
        },
    )

    @classmethod
    def property_problem(cls, name: str, value: str) -> TableProblem | None:
        """What is wrong with a declared table property; None where nothing is."""
        from kedro_lakehouse.formats.iceberg.properties import property_problem

        return property_problem(name, value)

    def __init__(self, context: FormatContext) -> None:
        """Store how to open session and catalog, and the ids that commits carry; nothing is opened yet."""
        self._session, self._catalog = context.session, context.catalog
        self._run_id, self._correlation_id = context.run_id, context.correlation_id
        self._states: dict[TableName, tuple[str, TableState]] = {}
        """The newest state of each table, and the place of the metadata that describes it."""
        self.maintenance = IcebergMaintenance(context.session, context.catalog)
        self.snapshots = IcebergSnapshots(context.session, context.catalog)

    @classmethod
    def lacking(cls, spark_conf: Mapping[str, str]) -> str | None:
        """What the environment's Spark settings lack for commits on branches; None if nothing."""
        loaded = spark_conf.get("spark.sql.extensions")
        if loaded is None or _EXTENSIONS in loaded:  # a platform's own session may load them itself
            return None
        return f"spark.sql.extensions does not name {_EXTENSIONS}"

    def glance(self, table: TableName) -> TableSummary | None:
        """The table's summary, without its columns' types; starts no JVM and imports no Spark."""
        return glance(self._catalog, table)

    def state(self, table: TableName) -> TableState | None:
        """The table's published state, or None if there is no such table. Starts no JVM."""
        found = self._catalog.find(table)
        if found is None:
            return None
        place, known = self._states.get(table, ("", None))
        if known is None or place != found.metadata_location:
            known = self._described(found)
            self._states[table] = found.metadata_location, known
        return known

    @staticmethod
    def _described(found: Table) -> TableState:
        """The state that a table's metadata describes."""
        from kedro_lakehouse.session.arrow import spark_types

        snapshot, changed = found.current_snapshot(), last_change(found)
        return TableState(
            columns=spark_types(found.schema().as_arrow()),
            bookmark=CommitReport.from_property(found.properties.get(BOOKMARK)),
            snapshot_id=changed.snapshot_id if changed else None,
            snapshot_time=changed.timestamp_ms if changed else None,
            rows=rows_of(snapshot),
            branches=[name for name, ref in found.refs().items() if name != "main"],
            properties=dict(found.properties),
            uuid=str(found.metadata.table_uuid),
            version=version_of(
                str(found.metadata.table_uuid), snapshot.snapshot_id if snapshot else None, found.properties
            ),
        )

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
        from kedro_lakehouse.formats.iceberg.rows import find_rows, may_change_by_files

        found = self._found_in(table, state)
        if not may_change_by_files(found):
            return None
        return find_rows(found, among, most_bytes=most_bytes, near=near)

    def rows_among(
        self,
        table: TableName,
        snapshot_id: int,
        among: Mapping[str, Sequence[Any]],
        columns: Sequence[str],
        *,
        most_bytes: int,
    ) -> pa.Table | None:
        """Some columns of the rows at a snapshot with one of the given values each; None: Spark must look."""
        from kedro_lakehouse.formats.iceberg.rows import may_change_by_files, rows_among

        found = self._catalog.find(table)
        if found is None or not may_change_by_files(found):
            return None
        return rows_among(found, snapshot_id, among, columns, most_bytes=most_bytes)

    def write_files(
        self, table: TableName, state: TableState, rows: pa.Table | None, gone: Sequence[Place]
    ) -> WrittenFiles | None:
        """Write new rows, and the places of deleted ones, to files; None if Spark must write them."""
        from kedro_lakehouse.formats.iceberg.new_files import write_files
        from kedro_lakehouse.formats.iceberg.rows import may_change_by_files

        found = self._found_in(table, state)
        if not may_change_by_files(found):
            return None
        return write_files(found, rows, gone, {CORRELATION_ID: self._correlation_id})

    def _found_in(self, table: TableName, state: TableState) -> Table:
        """The table's metadata, which must be that of a state."""
        found = self._catalog.find(table)
        if found is None:
            raise CommitConflictError(table=table, attempts=1)
        head = found.metadata.current_snapshot_id
        if version_of(str(found.metadata.table_uuid), head, found.properties) != state.version:
            raise CommitConflictError(table=table, attempts=1)
        return found

    def purge(self, table: TableName, *, before: datetime) -> Sequence[str]:
        """Remove deleted rows from data files, manifests and earlier snapshots; tags and branches stay."""
        from kedro_lakehouse.formats.iceberg.purge import purge

        return purge(self._session(), self._catalog, table, before=before)

    def commits(self, table: TableName) -> Iterator[tuple[CommitReport, int | None]]:
        """The published commits that the table's metadata files still hold, newest first."""
        found = self._catalog.find(table)
        return earlier_commits(found) if found is not None else iter(())

    def read(self, table: TableName) -> DataFrame:
        """The published table as a lazy frame."""
        return self._session().table(table.sql)

    def read_at(self, table: TableName, time: datetime) -> DataFrame:
        """The table as it was published at a time."""
        moment = time.astimezone(UTC).isoformat(sep=" ", timespec="milliseconds")
        # As SQL, because the reader of Spark 3.5 ignores `timestampAsOf` for a table that is given by name.
        return self._session().sql(f"SELECT * FROM {table.sql} TIMESTAMP AS OF '{moment}'")  # noqa: S608

    def may_hold(self, table: TableName, column: str, low: object, high: object) -> bool:
        """Whether some file may hold a value of a column between two bounds: by metadata alone, no job."""
        from pyiceberg.types import TimestamptzType

        found = self._catalog.find(table)
        if found is None or found.current_snapshot() is None:
            return False
        zoned = isinstance(found.schema().find_type(column), TimestamptzType)
        bounds = _between(column, literal(low, zoned=zoned), literal(high, zoned=zoned))
        return any(True for _ in found.scan(row_filter=bounds).plan_files())

    def bounds(self, table: TableName, columns: Sequence[str], where: str, low: int, high: int) -> Bounds:
        """Row count and value ranges of the files whose column ``where`` may lie in a range.

        From metadata alone, no job. A column is left out if one of these files has no bounds for it, or if
        it is neither an integer, a string nor a decimal.
        """
        from pyiceberg.conversions import from_bytes
        from pyiceberg.types import DecimalType, IntegerType, LongType, StringType

        found = self._catalog.find(table)
        if found is None or found.current_snapshot() is None:
            return Bounds(rows=0, ranges={})
        files = [task.file for task in found.scan(row_filter=_between(where, low, high)).plan_files()]
        ranges: dict[str, tuple[Any, Any]] = {}
        for name in columns:
            field = found.schema().find_field(name)
            kind: Any = field.field_type
            if not isinstance(kind, IntegerType | LongType | StringType | DecimalType):
                continue
            ends = [
                (from_bytes(kind, f.lower_bounds[i]), from_bytes(kind, f.upper_bounds[i]))
                for f, i in ((f, field.field_id) for f in files)
                if i in (f.lower_bounds or ()) and i in (f.upper_bounds or ())
            ]
            if ends and len(ends) == len(files):
                ranges[name] = (min(e[0] for e in ends), max(e[1] for e in ends))
        return Bounds(rows=sum(f.record_count for f in files), ranges=ranges)

    def create(self, table: TableName, columns: Mapping[str, T.DataType], layout: Layout) -> None:
        """Create the table if it does not exist; starts no job."""
        from kedro_lakehouse.changes.conversion import sql_type
        from kedro_lakehouse.formats.ddl import storable

        self._catalog.ensure_namespace(table.namespace)
        fields = ", ".join(f"{quote(n)} {sql_type(storable(t))}" for n, t in columns.items())
        parts = ", ".join(map(transform, layout.partition_by))
        partitions = f" PARTITIONED BY ({parts})" if parts else ""
        properties = _BASE_PROPERTIES | dict(layout.properties)
        given = ", ".join(f"{text(k)} = {text(v)}" for k, v in properties.items())
        session = self._session()
        session.sql(
            f"CREATE TABLE IF NOT EXISTS {table.sql} ({fields}) USING iceberg{partitions} "
            f"TBLPROPERTIES ({given})"
        )
        if layout.sort_by:
            session.sql(f"ALTER TABLE {table.sql} WRITE ORDERED BY {', '.join(map(quote, layout.sort_by))}")

    def evolve(self, table: TableName, columns: Mapping[str, T.DataType], state: TableState) -> None:
        """Add missing columns and struct fields and widen types, so that the table holds ``columns``.

        Existing columns stay; a second call changes nothing.

        Raises:
            IncompatibleTypeError: A column would have to become a type that loses values.
        """
        from kedro_lakehouse.formats.ddl import evolve_table

        evolve_table(
            lambda statement: self._session().sql(statement), table.sql, table, columns, state.columns
        )

    def rename_columns(self, table: TableName, names: Mapping[str, str]) -> None:
        """Rename columns; data files, which know columns by their ids, stay as they are."""
        from kedro_lakehouse.formats.ddl import rename_in_table

        rename_in_table(self._session().sql, table.sql, names)

    def ensure_view(self, view: TableName, definition: str, digest: str) -> bool:
        """Create a view in the catalog unless it exists with this digest; True if it was created.

        Where an SQL catalog stores it as it is wanted, no JVM is started.

        Raises:
            UnsupportedError: A table has the view's name.
        """
        if self._catalog.view_properties(view).get(_DEFINITION) == digest:
            return False
        session = self._session()
        catalog = utilities_of(session).loadIcebergCatalog(session._jsparkSession, CATALOG)
        name = java_class(session, "org.apache.iceberg.catalog.TableIdentifier").parse(str(view))
        if catalog.viewExists(name):
            if catalog.loadView(name).properties().get(_DEFINITION) == digest:
                return False
        elif catalog.tableExists(name):
            raise UnsupportedError(
                what=f"The name {view} is a table's: no view can bear it.",
                remedy="Give the view another `name` in tables.yml.",
            )
        # Safe in an f-string: the digest is hexadecimal, the definition holds only quoted names and constants
        # of its own.
        made = f"CREATE OR REPLACE VIEW {view.sql} TBLPROPERTIES ('{_DEFINITION}' = '{digest}')"
        session.sql(f"{made} AS {definition}")
        return True

    def uuid(self, table: TableName) -> str | None:
        """The table's unique id: a later table of the same name has another one; None if no table exists."""
        found = self._catalog.find(table)
        return str(found.metadata.table_uuid) if found is not None else None

    def drop(self, table: TableName, *, uuid: str | None = None) -> None:
        """Drop the table and its files; with ``uuid``, only if the table still has that id."""
        if uuid is not None and self.uuid(table) != uuid:
            return
        self._session().sql(f"DROP TABLE IF EXISTS {table.sql} PURGE")

    def adopt(
        self, table: TableName, paths: Sequence[str], report: CommitReport, *, planned_on: TableState
    ) -> int | None:
        """Add parquet files to the table where they lie, without a copy, and set its bookmark, in one commit.

        Only their footers are read; starts no JVM.

        Raises:
            ValueError: A file does not fit the table's columns or partitions, or is in the table already.
            CommitConflictError: The table is no longer in the planned state; nothing was published.
        """
        from pyiceberg.exceptions import CommitFailedException

        found = self._catalog.catalog.load_table(table.identifier)
        base, made = found.metadata.current_snapshot_id, str(found.metadata.table_uuid)
        if version_of(made, base, found.properties) != planned_on.version:
            raise CommitConflictError(table=table, attempts=1)
        # pyiceberg must not retry by itself: it would add the files on top of another writer's commit.
        once = found.properties | {"commit.retry.num-retries": "0"}
        found.metadata = found.metadata.model_copy(update={"properties": once})
        try:
            with found.transaction() as transaction:
                transaction.add_files(list(paths))
                transaction.set_properties({BOOKMARK: report.to_property()})
        except CommitFailedException as error:
            raise CommitConflictError(table=table, attempts=1) from error
        return found.metadata.current_snapshot_id

    def keep_published(self, table: TableName, published: Sequence[int], keep: int) -> Mapping[str, int]:
        """Tag the newest published snapshots, and take such tags of earlier ones away; starts no JVM.

        Raises:
            CommitConflictError: A writer was faster; nothing was changed.
        """
        from kedro_lakehouse.formats.iceberg.published import keep_published

        return keep_published(self._catalog, table, published, keep)

    @contextlib.contextmanager
    def stage(self, table: TableName, state: TableState | None) -> Iterator[IcebergStage]:
        """Open a stage on one published state of the table; it is dropped if the block fails."""
        session = self._session()
        session.conf.set(_SNAPSHOT_PROPERTY + CORRELATION_ID, self._correlation_id)
        planned_on = state or self.state(table)
        stage = IcebergStage(session, self._catalog, table, stage_branch(self._run_id), planned_on)
        with dropped_on_failure(stage):
            yield stage

    def sql(self, table: TableName) -> str:
        """The table's quoted path in catalog ``lake``."""
        return table.sql

    def holds_snapshot(self, table: TableName, snapshot_id: int) -> bool:
        """Whether a snapshot exists and has not expired; starts no JVM."""
        found = self._catalog.find(table)
        return found is not None and found.snapshot_by_id(snapshot_id) is not None

    def rows_at(self, table: TableName, snapshot_id: int) -> str:
        """SQL text for a FROM clause that reads the table as of one snapshot."""
        return f"{table.sql} VERSION AS OF {int(snapshot_id)}"


def _between(column: str, low: object, high: object) -> Any:
    import pyiceberg.expressions as built

    expressions: Any = built  # its constructors are typed for pydantic, not for callers
    return expressions.And(
        expressions.GreaterThanOrEqual(column, low), expressions.LessThanOrEqual(column, high)
    )
