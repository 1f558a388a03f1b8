"""Apache Iceberg: tables, and commits that are staged on a branch before anybody sees them."""

from __future__ import annotations

import contextlib
import uuid
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Final, cast

from kedro_lakehouse.errors import CommitConflictError, CommitUnknownError, IncompatibleTypeError
from kedro_lakehouse.formats.base import Bounds, Layout, TableState, is_stage_branch, stage_branch
from kedro_lakehouse.formats.ddl import sql_type, storable
from kedro_lakehouse.formats.literals import constant, text, transform
from kedro_lakehouse.names import CATALOG, TableName, quote
from kedro_lakehouse.ops.report import BOOKMARK, CommitReport
from kedro_lakehouse.session.arrow import as_spark_reads

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from py4j.protocol import Py4JJavaError
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import types as T

    from kedro_lakehouse.session.catalog import MetadataCatalog

_BASE_PROPERTIES: Final = {
    "format-version": "2",
    "write.delete.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.merge.mode": "merge-on-read",
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "50",
}
CORRELATION_ID: Final = "kedro_lakehouse.correlation_id"
_SNAPSHOT_PROPERTY: Final = "spark.sql.iceberg.snapshot-property."
_RACED: Final = ("CommitFailedException", "is not an ancestor of", "Cannot commit", "already exists")


class IcebergFormat:
    """Tables of catalog ``lake``."""

    name = "iceberg"

    def __init__(
        self,
        *,
        session: Callable[[], SparkSession],
        catalog: MetadataCatalog,
        run_id: str,
        correlation_id: str,
    ) -> None:
        """Keep how to get at session and metadata, and what commits are named by; nothing is opened."""
        self._session, self._catalog = session, catalog
        self._run_id, self._correlation_id = run_id, correlation_id

    def state(self, table: TableName) -> TableState | None:
        """Where a table stands, or None where there is none. Starts no JVM."""
        from pyspark.sql.pandas.types import from_arrow_schema

        found = self._catalog.find(table)
        if found is None:
            return None
        snapshot = found.current_snapshot()
        summary = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
        rows = int(summary.get("total-records", 0)) - int(summary.get("total-position-deletes", 0))
        schema = from_arrow_schema(as_spark_reads(found.schema().as_arrow()), prefer_timestamp_ntz=True)
        return TableState(
            columns={f.name: f.dataType for f in schema.fields},
            bookmark=CommitReport.from_property(found.properties.get(BOOKMARK)),
            snapshot_id=snapshot.snapshot_id if snapshot else None,
            rows=rows,
            branches=[name for name, ref in found.refs().items() if name != "main"],
            properties=dict(found.properties),
        )

    def read(self, table: TableName) -> DataFrame:
        """The published table as a lazy frame."""
        return self._session().table(table.sql)

    def read_at(self, table: TableName, time: datetime) -> DataFrame:
        """The table as it was published at a time."""
        moment = time.astimezone(UTC).isoformat(sep=" ", timespec="milliseconds")
        return self._session().read.option("timestampAsOf", moment).table(table.sql)

    def may_hold(self, table: TableName, column: str, low: object, high: object) -> bool:
        """Whether some file may hold values of a column between two bounds: by metadata alone, no job."""
        import pyiceberg.expressions as built
        from pyiceberg.types import TimestamptzType

        found = self._catalog.find(table)
        if found is None or found.current_snapshot() is None:
            return False
        expressions: Any = built  # its constructors are typed for pydantic, not for callers
        zoned = isinstance(found.schema().find_type(column), TimestamptzType)
        bounds = expressions.And(
            expressions.GreaterThanOrEqual(column, _literal(low, zoned=zoned)),
            expressions.LessThanOrEqual(column, _literal(high, zoned=zoned)),
        )
        return any(True for _ in found.scan(row_filter=bounds).plan_files())

    def bounds(self, table: TableName, columns: Sequence[str], where: str, low: int, high: int) -> Bounds:
        """How many rows, and which values of columns, the files hold whose ``where`` may lie in a range.

        From metadata alone, no job; a column whose files do not all tell is left out.
        """
        import pyiceberg.expressions as built
        from pyiceberg.conversions import from_bytes
        from pyiceberg.types import DecimalType, IntegerType, LongType, StringType

        found = self._catalog.find(table)
        if found is None or found.current_snapshot() is None:
            return Bounds(rows=0, ranges={})
        expressions: Any = built  # its constructors are typed for pydantic, not for callers
        row_filter = expressions.And(
            expressions.GreaterThanOrEqual(where, low), expressions.LessThanOrEqual(where, high)
        )
        files = [task.file for task in found.scan(row_filter=row_filter).plan_files()]
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
        """Create the table where it does not exist; starts no job."""
        self._catalog.ensure_namespace(table.namespace)
        fields = ", ".join(f"{quote(n)} {sql_type(storable(t))}" for n, t in columns.items())
        partitions = (
            f" PARTITIONED BY ({', '.join(map(transform, layout.partition_by))})"
            if layout.partition_by
            else ""
        )
        properties = ", ".join(
            f"{text(k)} = {text(v)}" for k, v in (_BASE_PROPERTIES | dict(layout.properties)).items()
        )
        session = self._session()
        session.sql(
            f"CREATE TABLE IF NOT EXISTS {table.sql} ({fields}) USING iceberg{partitions} "
            f"TBLPROPERTIES ({properties})"
        )
        if layout.sort_by:
            session.sql(f"ALTER TABLE {table.sql} WRITE ORDERED BY {', '.join(map(quote, layout.sort_by))}")

    def evolve(self, table: TableName, columns: Mapping[str, T.DataType], state: TableState) -> None:
        """Add missing columns and struct fields and widen types, so that the table holds ``columns``.

        What is there already stays; doing it twice changes nothing.

        Raises:
            IncompatibleTypeError: A column would have to become a type that loses values.
        """
        from kedro_lakehouse.formats.ddl import clash, schema_changes, widened

        wanted = dict(columns)
        for name, existing in state.columns.items():
            if name not in columns:
                continue
            wider = widened(existing, columns[name])
            if wider is None:
                found = clash(name, existing, columns[name])
                raise IncompatibleTypeError(
                    table=table, column=found.column if found else name,
                    existing=(found.existing if found else existing).simpleString(),
                    incoming=(found.incoming if found else columns[name]).simpleString(),
                    reason=found.reason if found else "",
                )  # fmt: skip
            wanted[name] = wider
        changes = schema_changes(state.columns, wanted)
        session = self._session() if changes else None
        if session and (added := [f"{c.sql} {sql_type(c.kind)}" for c in changes if c.what == "add"]):
            session.sql(f"ALTER TABLE {table.sql} ADD COLUMNS ({', '.join(added)})")
        for change in changes:
            if session and change.what == "widen":
                session.sql(f"ALTER TABLE {table.sql} ALTER COLUMN {change.sql} TYPE {sql_type(change.kind)}")

    def uuid(self, table: TableName) -> str | None:
        """What tells a table from one that is made later under its name; None where there is none."""
        found = self._catalog.find(table)
        return str(found.metadata.table_uuid) if found is not None else None

    def drop(self, table: TableName) -> None:
        """Drop a table with its files."""
        self._session().sql(f"DROP TABLE IF EXISTS {table.sql} PURGE")

    @contextlib.contextmanager
    def stage(self, table: TableName, state: TableState | None) -> Iterator[Stage]:
        """Open a stage on the table's published state; what the block leaves unpublished is dropped.

        Stages that a dead run left behind are dropped first: the caller holds the table's lease.
        """
        for branch in state.branches if state else ():
            if is_stage_branch(branch):
                self.drop_branch(table, branch)
        session = self._session()
        session.conf.set(_SNAPSHOT_PROPERTY + CORRELATION_ID, self._correlation_id)
        stage = Stage(session, table, stage_branch(self._run_id))
        try:
            yield stage
        except CommitUnknownError:
            raise  # what may be committed is never cleaned up
        except BaseException:
            stage.drop()
            raise

    def rows_at(self, table: TableName, snapshot_id: int) -> str:
        """SQL text of a table as it was in one snapshot, to stand behind FROM."""
        return f"{table.sql} VERSION AS OF {int(snapshot_id)}"

    def drop_branch(self, table: TableName, branch: str) -> None:
        """Drop a branch, published rows untouched."""
        _load(self._session(), table).manageSnapshots().removeBranch(branch).commit()


class Stage:
    """A commit in the making, on a branch of its own."""

    def __init__(self, session: SparkSession, table: TableName, branch: str) -> None:
        """Remember where the stage will be; the branch is made with the first write."""
        self._session, self.table, self.branch = session, table, branch
        self._open = False
        self.base: int | None = None
        self.has_new_rows = self._replaced = False

    @property
    def is_open(self) -> bool:
        """Whether anything was staged."""
        return self._open

    @property
    def target(self) -> str:
        """The staged table as SQL, for reads and writes."""
        return f"{self.table.sql}.{quote(f'branch_{self.branch}')}"

    def _ensure(self) -> None:
        if not self._open:
            handle = _load(self._session, self.table)
            head = handle.currentSnapshot()
            self.base = head.snapshotId() if head is not None else None
            handle.manageSnapshots().createBranch(self.branch).commit()
            self._open = True

    def append(self, rows: DataFrame) -> None:
        """Write rows; one Spark job."""
        self._ensure()
        self.has_new_rows = True
        rows.writeTo(self.target).option("fanout-enabled", "true").append()

    def replace(self, rows: DataFrame) -> None:
        """Write rows in the place of all that are there; one Spark job, which may read the table itself."""
        from pyspark.sql import functions as F

        self._ensure()
        self.has_new_rows = self._replaced = True
        rows.writeTo(self.target).option("fanout-enabled", "true").overwrite(F.lit(True))

    def staged(self) -> DataFrame:
        """The whole table as it is staged."""
        return self._session.table(self.target if self._open else self.table.sql)

    def delete(
        self, doomed: DataFrame, on: Sequence[str], *, near: Mapping[str, tuple[Any, Any]] | None = None
    ) -> None:
        """Delete the rows whose ``on`` columns equal those of a row of ``doomed``; one Spark job.

        ``near`` gives bounds of columns of the doomed rows: other files are not read.
        """
        self._ensure()
        view = f"_doomed_{uuid.uuid4().hex}"
        doomed.createOrReplaceTempView(view)
        matches = " AND ".join(f"t.{quote(c)} = d.{quote(c)}" for c in on)
        ranges = [
            f"t.{quote(c)} BETWEEN {constant(low)} AND {constant(high)}"
            for c, (low, high) in (near or {}).items()
        ]
        exists = f"EXISTS (SELECT 1 FROM {quote(view)} AS d WHERE {matches})"  # noqa: S608 - quoted
        try:
            self._session.sql(
                f"DELETE FROM {self.target} AS t WHERE {' AND '.join([*ranges, exists])}",  # noqa: S608 - quoted
            )
        finally:
            self._session.catalog.dropTempView(view)

    def delete_where(self, condition: str | None = None) -> None:
        """Delete the rows that meet a condition, or all of them; whole files go without a job."""
        self._ensure()
        self._session.sql(f"DELETE FROM {self.target}" + (f" WHERE {condition}" if condition else ""))  # noqa: S608 - the caller's own words

    def summary(self) -> dict[str, int]:
        """Whole-table counts of the staged state, from its metadata: no job."""
        handle = _load(self._session, self.table)
        handle.refresh()
        snapshot = handle.snapshot(self.branch) if self._open else handle.currentSnapshot()
        if snapshot is None:
            return {}
        return {k: int(v) for k, v in dict(snapshot.summary()).items() if str(v).isdigit()}

    def rows(self) -> int:
        """How many rows the staged table has."""
        summary = self.summary()
        return summary.get("total-records", 0) - summary.get("total-position-deletes", 0)

    def appended(self) -> DataFrame:
        """The rows that the last write of this stage wrote, read back from their files."""
        if self._replaced:
            return self.staged()
        head = _load(self._session, self.table).snapshot(self.branch)
        reader = self._session.read.format("iceberg").option("end-snapshot-id", head.snapshotId())
        if head.parentId() is None:
            return self._session.table(self.target)
        return reader.option("start-snapshot-id", head.parentId()).load(
            f"{CATALOG}.{self.table.namespace}.{self.table.table}"
        )

    def publish(
        self,
        report: CommitReport,
        *,
        properties: Mapping[str, str] | None = None,
        without: Sequence[str] = (),
    ) -> int | None:
        """Make the staged rows and the bookmark visible in one commit; the new snapshot's id.

        In the same commit ``properties`` are set, and the columns ``without`` leave the table.

        Raises:
            CommitConflictError: Another writer was faster; nothing was published.
            CommitUnknownError: The catalog did not answer; look for the bookmark before anything else.
        """
        from py4j.protocol import Py4JJavaError

        transaction = _load(self._session, self.table).newTransaction()
        try:
            if self._open:
                transaction.manageSnapshots().fastForwardBranch("main", self.branch).commit()
            update = transaction.updateProperties()
            for key, value in {**(properties or {}), BOOKMARK: report.to_property()}.items():
                update.set(key, value)
            update.commit()
            if without:
                schema = transaction.updateSchema()
                for name in without:
                    schema.deleteColumn(name)
                schema.commit()
            if self._open:
                transaction.manageSnapshots().removeBranch(self.branch).commit()
            transaction.commitTransaction()
        except Py4JJavaError as error:
            raise self._translated(error, report.batch) from error
        self._open = False
        head = _load(self._session, self.table).currentSnapshot()
        return head.snapshotId() if head is not None else None

    def _translated(self, error: Py4JJavaError, batch: int) -> Exception:
        text = str(error.java_exception)
        if "CommitStateUnknownException" in text:
            return CommitUnknownError(table=self.table, batch=batch)
        if any(sign in text for sign in _RACED):
            return CommitConflictError(table=self.table, attempts=1)
        return cast("Exception", error)

    def drop(self) -> None:
        """Drop the stage; published rows are untouched."""
        if self._open:
            _load(self._session, self.table).manageSnapshots().removeBranch(self.branch).commit()
            self._open = False


def _load(session: SparkSession, table: TableName) -> Any:
    path = f"{CATALOG}.{table.namespace}.{table.table}"  # both parts are checked identifiers
    jvm: Any = session._jvm
    # Iceberg finds the catalog by the settings of the thread's active session, which a worker thread lacks.
    jvm.org.apache.spark.sql.SparkSession.setActiveSession(session._jsparkSession)
    return jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable(session._jsparkSession, path)


def _literal(value: object, *, zoned: bool) -> Any:
    if zoned and isinstance(value, datetime):
        value = value.astimezone(UTC)  # Spark gives times with a zone as naive local ones
    return value.isoformat() if isinstance(value, date) else value
