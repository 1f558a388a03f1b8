"""Apache Hudi: tables at paths, each change one commit that carries its bookmark. Runs on Spark 3.5."""

from __future__ import annotations

import contextlib
import re
import uuid
from typing import TYPE_CHECKING, ClassVar, Final

from pyspark.sql import types as T

from kedro_lakehouse.errors import UnsupportedError, listed
from kedro_lakehouse.formats.at_paths import FormatAtPaths
from kedro_lakehouse.formats.base import Bounds, Capabilities, TableState, commits_of_batches
from kedro_lakehouse.formats.ddl import schema_changes, table_schema, wider_columns
from kedro_lakehouse.formats.hudi.commit import HudiCommit, one_writer, turn_to_commit
from kedro_lakehouse.formats.hudi.maintenance import HudiMaintenance, purge
from kedro_lakehouse.formats.hudi.table import DELETED, RECORD_KEY, SETTINGS, SORT, HudiTable, is_shown
from kedro_lakehouse.formats.hudi.timeline import TABLE_TYPE, instant_of, state_version
from kedro_lakehouse.ops.report import BOOKMARK, CommitReport

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime

    from pyspark.sql import DataFrame

    from kedro_lakehouse.formats.base import FormatContext, Layout, Stage
    from kedro_lakehouse.names import TableName

_EXTENSION: Final = "org.apache.spark.sql.hudi.HoodieSparkSessionExtension"
_KEYGEN: Final = "org.apache.hudi.keygen."
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
"""The names that Avro allows; Hudi stores schemas in Avro."""


class HudiFormat(FormatAtPaths):
    """Hudi tables; their state and their commits are read from Hudi's timeline."""

    name: ClassVar[str] = "hudi"
    capabilities: ClassVar[Capabilities] = Capabilities(
        glue_provider="hudi",
        staged_audit=False,
        partition_transforms=False,
        views=False,
        safe_without_lease=False,
        archive_properties={"hoodie.parquet.compression.codec": "zstd"},
        spark=("3.5",),
    )

    def __init__(self, context: FormatContext) -> None:
        """Store how to open the session, and where tables lie; nothing is opened yet."""
        super().__init__(context)
        self.maintenance = HudiMaintenance(self._table, self.sql)
        self._settings = {
            key.removeprefix("spark."): value
            for key, value in context.spark_conf.items()
            if key.startswith(SETTINGS)
        }

    @classmethod
    def lacking(cls, spark_conf: Mapping[str, str]) -> str | None:
        """What the environment's Spark settings lack for Hudi; None if nothing."""
        if _EXTENSION in spark_conf.get("spark.sql.extensions", ""):
            return None
        return f"spark.sql.extensions does not name {_EXTENSION}"

    def purge(self, table: TableName, *, before: datetime) -> Sequence[str]:
        """Remove deleted rows and earlier versions from files; what is staged lies beside them."""
        del before
        found = self._table(table)
        if found.timeline().exists():
            purge(found, table, self.sql)
        return []

    def _table(self, table: TableName) -> HudiTable:
        return HudiTable(self._session(), table, self.path(table), self._settings)

    def state(self, table: TableName) -> TableState | None:
        """The table's published state, or None if there is no such table. Starts no Spark job."""
        timeline = self._table(table).timeline()
        if not timeline.exists():
            return None
        newest = timeline.newest
        return TableState(
            columns={f.name: f.dataType for f in timeline.schema().fields if is_shown(f.name)},
            bookmark=CommitReport.from_property(newest.bookmark) if newest else None,
            snapshot_id=int(newest.instant) if newest else None,
            snapshot_time=newest.completed_ms if newest else None,
            rows=timeline.state["rows"],
            properties=timeline.state["properties"],
            uuid=str(timeline.made()["uuid"]),
            version=timeline.state_version,
        )

    def read(self, table: TableName) -> DataFrame:
        """The published table as a lazy frame."""
        return self._table(table).read()

    def read_at(self, table: TableName, time: datetime) -> DataFrame:
        """The table as it was published at a time."""
        found = self._table(table)
        seen = found.timeline().seen_at(time)
        return found.read(**{"as.of.instant": seen.instant if seen else instant_of(time)})

    def rows_at(self, table: TableName, snapshot_id: int) -> str:
        """SQL text for a FROM clause that reads the table as of one commit."""
        return f"{self.sql(table)} TIMESTAMP AS OF '{int(snapshot_id)}'"

    def holds_snapshot(self, table: TableName, snapshot_id: int) -> bool:
        """Whether the table can still be read as of a commit: it is neither archived nor cleaned."""
        timeline = self._table(table).timeline()
        return timeline.exists() and timeline.holds(str(snapshot_id))

    def may_hold(self, table: TableName, column: str, low: object, high: object) -> bool:
        """Whether a partition of this one value exists; True for every question that needs more than that."""
        timeline = self._table(table).timeline()
        if not timeline.exists():
            return False
        if low != high or timeline.setting("hoodie.table.partition.fields") != column:
            return True
        return timeline.exists(f"{column}={low}")

    def bounds(self, table: TableName, *_: object) -> Bounds:
        """The row count of the whole table, whatever is asked for; Hudi's commits hold no value ranges."""
        state = self.state(table)
        return Bounds(rows=state.rows if state else 0, ranges={})

    def create(self, table: TableName, columns: Mapping[str, T.DataType], layout: Layout) -> None:
        """Create the table if it does not exist; starts no job.

        Raises:
            UnsupportedError: Hudi cannot have the name of a column, or a partition of the layout.
        """
        if self._table(table).timeline().exists():
            return
        refuse_names(table, columns)
        if transforms := [p for p in layout.partition_by if p not in columns]:
            raise UnsupportedError(
                what=f"{table}: Hudi partitions by columns of the table, not by {listed(transforms)}.",
                remedy="Name columns in `partition_by`.",
            )
        table_type = layout.properties.get(TABLE_TYPE) or self._settings.get(TABLE_TYPE, "COPY_ON_WRITE")
        made = {
            "uuid": str(uuid.uuid4()),
            "identity": list(layout.identity),
            "properties": {**layout.properties, **_layout_settings(layout), TABLE_TYPE: table_type},
        }
        schema = table_schema(columns)
        if layout.identity:
            schema = T.StructType(
                [T.StructField(RECORD_KEY, T.StringType()), *schema, T.StructField(DELETED, T.BooleanType())]
            )
        found = self._table(table)
        with one_writer(found, self._leases), contextlib.suppress(FileExistsError):
            found.timeline().make(schema, made, self._table_settings(table, layout, table_type))

    def _table_settings(self, table: TableName, layout: Layout, table_type: str) -> dict[str, str]:
        """The entries of hoodie.properties for a new table; other writers and readers of Hudi obey them."""
        partitions = ",".join(layout.partition_by)
        generator = {0: "NonpartitionedKeyGenerator", 1: "SimpleKeyGenerator"}.get(len(layout.partition_by))
        return {
            "hoodie.database.name": table.namespace,
            "hoodie.table.name": table.table,
            "hoodie.table.type": table_type,
            "hoodie.table.keygenerator.class": _KEYGEN + (generator or "ComplexKeyGenerator"),
            "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
            "hoodie.table.timeline.timezone": "UTC",
            "hoodie.datasource.write.hive_style_partitioning": "true",
            "hoodie.datasource.write.partitionpath.urlencode": "true",
            **({"hoodie.table.recordkey.fields": RECORD_KEY} if layout.identity else {}),
            **({"hoodie.table.partition.fields": partitions} if partitions else {}),
        }

    def evolve(self, table: TableName, columns: Mapping[str, T.DataType], state: TableState) -> None:
        """Add missing columns and struct fields and widen types, by a commit without rows.

        Raises:
            CommitConflictError: The table is no longer in this state.
            IncompatibleTypeError: A column would have to become a type that loses values.
        """
        wanted = wider_columns(table, state.columns, columns)
        if not schema_changes(state.columns, wanted):
            return
        refuse_names(table, wanted)
        found = self._table(table)
        with turn_to_commit(found, state.version, self._leases) as turn:
            rows, newest = found.none(table_schema({**state.columns, **wanted})), turn.timeline.newest
            carried = {BOOKMARK: newest.bookmark} if newest and newest.bookmark else {}
            turn.confirm()
            found.write(rows, found.adding, carried=carried, state=turn.timeline.state)
        self._names.forget(table)  # SQL knows only the columns at the time of registration

    def uuid(self, table: TableName) -> str | None:
        """The table's unique id: a later table of the same name has another one; None if no table exists."""
        timeline = self._table(table).timeline()
        return timeline.uuid if timeline.exists() else None

    def commits(self, table: TableName) -> Iterator[tuple[CommitReport, int | None]]:
        """The published commits that the timeline still holds, newest first, each with its instant."""
        timeline = self._table(table).timeline()
        kept = timeline.commits() if timeline.exists() else ()
        return commits_of_batches((one.bookmark, int(one.instant)) for one in kept)

    def stage(self, table: TableName, state: TableState | None) -> AbstractContextManager[Stage]:
        """Open a stage on one published state of the table; what the block leaves unpublished is dropped."""
        held = state or self.state(table)  # a table that was just created has columns, but no commit
        planned = state.version if state else state_version(self.uuid(table) or "", None)
        commit = HudiCommit(self._table(table), planned, self._leases)
        before, columns = (held.rows, held.columns) if held else (0, {})
        return self._stage(table, commit, commit.is_current, before=before, columns=columns)


def _layout_settings(layout: Layout) -> dict[str, str]:
    """Hudi's write options that follow from a layout."""
    settings = {}
    if layout.sort_by:
        settings[SORT] = ",".join(layout.sort_by)
    if layout.identity and layout.partition_by:  # a row may move from one partition to another
        settings["hoodie.index.type"] = "GLOBAL_SIMPLE"
        settings["hoodie.simple.index.update.partition.path"] = "true"
    return settings


def refuse_names(table: TableName, columns: Mapping[str, T.DataType]) -> None:
    """Refuse names of columns and struct fields that Hudi cannot store.

    Raises:
        UnsupportedError: There are such names; the error lists them.
    """
    names = [*columns, *_fields(columns.values())]
    if refused := [n for n in names if not _NAME.fullmatch(n)]:
        raise UnsupportedError(
            what=f"{table}: Hudi cannot hold the names {listed(refused)}: letters, digits and _ are allowed.",
            remedy="Give them other names by `rename` in tables.yml.",
        )


def _fields(kinds: Iterable[T.DataType]) -> Iterator[str]:
    for kind in kinds:
        if isinstance(kind, T.StructType):
            yield from kind.fieldNames()
            yield from _fields(f.dataType for f in kind.fields)
        elif isinstance(kind, T.ArrayType):
            yield from _fields([kind.elementType])
        elif isinstance(kind, T.MapType):
            yield from _fields([kind.valueType])
