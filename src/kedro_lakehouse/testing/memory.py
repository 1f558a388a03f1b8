"""A table format in memory that fulfils the whole contract: for tests of what happens between two writers.

Rows are dictionaries. Tables are values that are swapped as a whole. Every access to what writers share calls
``MemoryLake.touch``, so that a scheduler can stop a writer there. With a Spark session the format takes and
returns Spark's frames; without one it takes and returns ``Rows``, and needs no JVM.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
import uuid
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, ClassVar, cast

from kedro_lakehouse.errors import AuditFailedError, CommitConflictError, CommitUnknownError
from kedro_lakehouse.formats.at_paths import SessionCatalog
from kedro_lakehouse.formats.base import Bounds, Capabilities, TableState, dropped_on_failure
from kedro_lakehouse.formats.maintenance import Action, Storage
from kedro_lakehouse.formats.snapshots import Snapshot
from kedro_lakehouse.ops.report import BOOKMARK, CommitReport

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql import types as T

    from kedro_lakehouse.config.maintenance import TableMaintenanceConfig
    from kedro_lakehouse.formats.base import FormatContext, Layout
    from kedro_lakehouse.names import TableName

Row = dict[str, Any]


@dataclass(frozen=True)
class Rows:
    """Rows in place of a frame, for tests without Spark."""

    rows: tuple[Row, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Snapshot:
    snapshot_id: int
    parent_id: int | None
    committed: datetime
    operation: str
    files: tuple[tuple[Row, ...], ...]
    bookmark: str | None


@dataclass(frozen=True, kw_only=True)
class _Table:
    """A table as all writers see it; a change makes a new value."""

    uuid: str
    columns: Mapping[str, T.DataType]
    properties: Mapping[str, str]
    files: tuple[tuple[Row, ...], ...] = ()
    version: int = 0
    snapshots: tuple[_Snapshot, ...] = ()
    commits: tuple[tuple[CommitReport, int | None], ...] = ()

    @property
    def rows(self) -> list[Row]:
        return [row for file in self.files for row in file]

    @property
    def head(self) -> _Snapshot | None:
        return self.snapshots[-1] if self.snapshots else None


@dataclass
class MemoryLake:
    """What all writers share. ``touch`` is called before every read and every change of it."""

    touch: Callable[[str], None] = lambda _: None
    tables: dict[TableName, _Table] = field(default_factory=dict)
    stages: dict[TableName, set[str]] = field(default_factory=dict)
    ids: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def find(self, table: TableName) -> _Table | None:
        """A table as it is now."""
        self.touch(f"read {table}")
        return self.tables.get(table)

    def swap(self, table: TableName, found: _Table | None, changed: _Table | None) -> bool:
        """Replace the table that was found by a changed one; False if another writer changed it meanwhile."""
        self.touch(f"write {table}")
        if self.tables.get(table) is not found:
            return False
        if changed is None:
            del self.tables[table]
        else:
            self.tables[table] = changed
        return True

    def changed(self, table: TableName, change: Callable[[_Table], _Table]) -> _Table | None:
        """Change a table, trying again while others change it too; None if there is no such table."""
        while True:
            found = self.find(table)
            if found is None:
                return None
            changed = change(found)
            if self.swap(table, found, changed):
                return changed


_lakes: dict[str, MemoryLake] = {}


def lake_of(place: str) -> MemoryLake:
    """The lake of a place; all formats that are created for the place share it."""
    return _lakes.setdefault(place, MemoryLake())


class MemoryFormat:
    """Tables in the memory of this process; not registered as an entry point."""

    name: ClassVar[str] = "memory"
    capabilities: ClassVar[Capabilities] = Capabilities(views=False)

    def __init__(self, context: FormatContext, lake: MemoryLake | None = None) -> None:
        """Use the lake of the lakehouse's place, or a given lake, which needs no session."""
        self._session = context.session if lake is None else None
        self._lake, self._run_id = lake or lake_of(context.lakehouse), context.run_id
        self._names = SessionCatalog(context.session, "parquet")
        self.maintenance, self.snapshots = _Maintenance(self._lake), _Snapshots(self._lake)

    @classmethod
    def lacking(cls, spark_conf: Mapping[str, str]) -> str | None:
        """Nothing is needed."""
        del spark_conf
        return None

    def state(self, table: TableName) -> TableState | None:
        """The table's published state, or None if there is no such table."""
        found = self._lake.find(table)
        return None if found is None else _state(found, sorted(self._lake.stages.get(table, ())))

    def read(self, table: TableName) -> Any:
        """The published rows."""
        found = self._there(table)
        return self._frame(found.rows, found.columns)

    def read_at(self, table: TableName, time: datetime) -> Any:
        """The rows as they were published at a time."""
        found = self._there(table)
        seen = [s for s in found.snapshots if s.committed <= time]
        rows = [row for file in (seen[-1].files if seen else ()) for row in file]
        return self._frame(rows, found.columns)

    def _there(self, table: TableName) -> _Table:
        found = self._lake.find(table)
        if found is None:
            raise KeyError(str(table))
        return found

    def _frame(self, rows: Sequence[Row], columns: Mapping[str, T.DataType]) -> Any:
        if self._session is None:
            return Rows(tuple(rows))
        return _spark_frame(self._session(), rows, columns)

    def sql(self, table: TableName) -> str:
        """SQL text for a FROM clause that reads the rows as they are now."""
        found = self._there(table)
        return _as_files(self._frame(found.rows, found.columns))

    def rows_at(self, table: TableName, snapshot_id: int) -> str:
        """SQL text for a FROM clause that reads the rows as of one snapshot."""
        found = self._there(table)
        seen = next(s for s in found.snapshots if s.snapshot_id == snapshot_id)
        return _as_files(self._frame([row for file in seen.files for row in file], found.columns))

    def holds_snapshot(self, table: TableName, snapshot_id: int) -> bool:
        """Whether a snapshot exists and has not expired."""
        found = self._lake.find(table)
        return found is not None and any(s.snapshot_id == snapshot_id for s in found.snapshots)

    def may_hold(self, table: TableName, column: str, low: Any, high: Any) -> bool:
        """Whether a row holds a value of a column between two bounds."""
        found = self._lake.find(table)
        values = [_value(row, column) for row in found.rows] if found else []
        return any(v is not None and low <= v <= high for v in values)

    def bounds(self, table: TableName, columns: Sequence[str], where: str, low: int, high: int) -> Bounds:
        """Row count of the rows whose ``where`` lies in a range; no value ranges of other columns."""
        del columns
        found = self._lake.find(table)
        rows = [r for r in found.rows if low <= (r.get(where) or 0) <= high] if found else []
        return Bounds(rows=len(rows), ranges={})

    def create(self, table: TableName, columns: Mapping[str, T.DataType], layout: Layout) -> None:
        """Create the table if it does not exist."""
        if self._lake.find(table) is None:
            made = _Table(uuid=uuid.uuid4().hex, columns=dict(columns), properties=dict(layout.properties))
            self._lake.swap(table, None, made)

    def evolve(self, table: TableName, columns: Mapping[str, T.DataType], state: TableState) -> None:
        """Add missing columns and struct fields and widen types.

        Raises:
            IncompatibleTypeError: A column would have to become a type that loses values.
        """
        from kedro_lakehouse.formats.ddl import wider_columns

        wider = wider_columns(table, state.columns, columns)
        self._lake.changed(table, lambda t: replace(t, columns={**t.columns, **wider}))

    def ensure_view(self, view: TableName, definition: str, digest: str) -> bool:
        """Register a view with the session unless it is there with this digest; True if it was registered."""
        return self._names.ensure_view(view, definition, digest)

    def uuid(self, table: TableName) -> str | None:
        """The table's unique id: a later table of the same name has another one; None if no table exists."""
        found = self._lake.find(table)
        return found.uuid if found else None

    def drop(self, table: TableName, *, uuid: str | None = None) -> None:
        """Drop the table and its stages; with ``uuid``, only if the table still has that id."""
        while (found := self._lake.find(table)) is not None and uuid in (None, found.uuid):
            if self._lake.swap(table, found, None):
                self._lake.stages.pop(table, None)

    def commits(self, table: TableName) -> Iterator[tuple[CommitReport, int | None]]:
        """The published commits, newest first, each with its snapshot."""
        found = self._lake.find(table)
        yield from reversed(found.commits if found else ())

    @contextlib.contextmanager
    def stage(self, table: TableName, state: TableState | None) -> Iterator[MemoryStage]:
        """Open a stage on one published state of the table."""
        stage = MemoryStage(self, self._lake, table, state or self.state(table), self._run_id)
        with dropped_on_failure(stage):
            yield stage


class MemoryStage:
    """One unpublished change of a table."""

    def __init__(
        self, made: MemoryFormat, lake: MemoryLake, table: TableName, state: TableState | None, run_id: str
    ) -> None:
        """Begin with the table's rows, if the table is still in the planned state."""
        self._format, self._lake, self.table = made, lake, table
        self._planned_on = state.version if state else ""
        self._mark = f"{run_id}.{uuid.uuid4().hex[:8]}"
        found = lake.find(table)
        if found is None or _version(found) != self._planned_on:
            raise CommitConflictError(table=table, attempts=1)
        self._base = found
        self._files: tuple[tuple[Row, ...], ...] | None = None
        self._added: tuple[Row, ...] = ()
        self.has_new_rows = False

    @property
    def is_open(self) -> bool:
        """Whether anything was staged."""
        return self._files is not None

    def _begin(self) -> tuple[tuple[Row, ...], ...]:
        self._lake.touch(f"stage {self.table}")
        self._lake.stages.setdefault(self.table, set()).add(self._mark)
        return self._base.files if self._files is None else self._files

    def _filled(self, rows: Any) -> tuple[Row, ...]:
        return tuple({c: row.get(c) for c in self._base.columns} | row for row in _rows(rows))

    def append(self, rows: Any) -> None:
        """Stage rows to append."""
        self._added = self._filled(rows)
        self._files = (*self._begin(), self._added)
        self.has_new_rows = True

    def replace(self, rows: Any) -> None:
        """Stage rows that replace all rows of the table."""
        self._begin()
        self._added = self._filled(rows)
        self._files = (self._added,)
        self.has_new_rows = True

    def replace_where(self, condition: str, rows: Any) -> None:
        """Stage rows that replace the rows that meet a condition, which Spark evaluates."""
        kept = self._frame(self._base.rows).where(f"NOT coalesce(({condition}), false)")
        self._begin()
        self._added = self._filled(rows)
        self._files = (tuple(_rows(kept)), self._added)
        self.has_new_rows = True

    def merge(
        self,
        rows_to_delete: Any,
        rows: Any,
        on: Sequence[str],
        *,
        near: Mapping[str, tuple[Any, Any]] | None = None,
    ) -> None:
        """Stage: delete the rows whose ``on`` columns match ``rows_to_delete``, then append ``rows``."""
        del near
        files = self._begin()
        gone = {_identity(row, on) for row in _rows(rows_to_delete)} if rows_to_delete is not None else set()
        self._files = tuple(tuple(r for r in file if _identity(r, on) not in gone) for file in files)
        self._added, self.has_new_rows = (), rows is not None
        if rows is not None:
            self._added = self._filled(rows)
            self._files = (*self._files, self._added)

    def _frame(self, rows: Sequence[Row]) -> Any:
        return self._format._frame(rows, self._base.columns)  # noqa: SLF001 - its own stage

    def _all(self) -> list[Row]:
        return [r for file in (self._base.files if self._files is None else self._files) for r in file]

    def staged(self) -> Any:
        """The whole table with the staged change applied."""
        return self._frame(self._all())

    def appended(self) -> Any:
        """The new rows of the staged change."""
        return self._frame(self._added)

    def written(self, columns: Sequence[str]) -> None:
        """None: the rows are not in files."""
        del columns

    def rows(self) -> int:
        """Row count of the staged table."""
        return len(self._all())

    def expect(self, rows: int) -> None:
        """Check that the staged table has ``rows`` rows.

        Raises:
            AuditFailedError: It has another number of rows.
        """
        if self.rows() != rows:
            raise AuditFailedError(
                table=self.table, batch=0, check="row arithmetic", expected=rows, found=self.rows()
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
            CommitConflictError: The table is no longer in the planned state; nothing was published.
            CommitUnknownError: There was no answer.
        """
        while True:
            found = self._lake.find(self.table)
            if found is None or _version(found) != self._planned_on:
                raise CommitConflictError(table=self.table, attempts=1)
            changed = self._published(found, report, properties or {}, without)
            try:
                if self._commit(found, changed):
                    break
            except OSError as error:
                raise CommitUnknownError(table=self.table, batch=report.batch) from error
        self._lake.stages.pop(self.table, None)  # all on the planned state, and so void
        self._files = None
        return changed.head.snapshot_id if changed.head else None

    def _commit(self, found: _Table, changed: _Table) -> bool:
        return self._lake.swap(self.table, found, changed)

    def _published(
        self, found: _Table, report: CommitReport, properties: Mapping[str, str], without: Sequence[str]
    ) -> _Table:
        files = found.files if self._files is None else tuple(f for f in self._files if f)
        snapshots = found.snapshots
        if self._files is not None:
            snapshots = (*snapshots, _new_snapshot(self._lake, found, files, "commit", report.to_property()))
        commits = found.commits
        if not commits or commits[-1][0] != report:
            commits = (*commits, (report, snapshots[-1].snapshot_id if snapshots else None))
        return replace(
            found,
            columns={c: kind for c, kind in found.columns.items() if c not in without},
            properties={**found.properties, **properties, BOOKMARK: report.to_property()},
            files=files,
            snapshots=snapshots,
            commits=commits,
            version=found.version + 1,
        )

    def drop(self) -> None:
        """Drop the stage; published rows are untouched, and another change can be staged."""
        self._lake.touch(f"drop the stage of {self.table}")
        self._lake.stages.get(self.table, set()).discard(self._mark)
        self._files, self._added, self.has_new_rows = None, (), False


class _Maintenance:
    """Maintains the files of tables."""

    def __init__(self, lake: MemoryLake) -> None:
        self._lake = lake

    def storage(self, table: TableName) -> Storage | None:
        """The table's files and snapshots; a row counts as one byte."""
        found = self._lake.find(table)
        if found is None:
            return None
        return Storage(
            files=len(found.files),
            delete_files=0,
            bytes=len(found.rows),
            manifests=1,
            snapshots=len(found.snapshots),
        )

    def plan(self, table: TableName, settings: TableMaintenanceConfig) -> Sequence[Action]:
        """The actions that are due; none below the thresholds."""
        found, actions = self._lake.find(table), list[Action]()
        if found is not None and len(found.files) >= settings.compact.small_files:
            actions.append(
                Action(work="compact", files=len(found.files), bytes=len(found.rows), reason="small files")
            )
        if found is not None and len(found.snapshots) > 1:
            gone = len(found.snapshots) - 1
            actions.append(Action(work="expire_snapshots", files=gone, bytes=0, reason="old snapshots"))
        return actions

    def perform(self, table: TableName, action: Action, settings: TableMaintenanceConfig) -> None:
        """Perform one action that is due.

        Raises:
            CommitConflictError: A writer was faster; nothing was changed.
        """
        del settings
        found = self._lake.find(table)
        if found is None:
            return
        if action.work == "compact":
            files = (tuple(found.rows),)
            snapshot = _new_snapshot(self._lake, found, files, "replace", found.properties.get(BOOKMARK))
            changed = replace(
                found, files=files, snapshots=(*found.snapshots, snapshot), version=found.version + 1
            )
        else:
            changed = replace(found, snapshots=found.snapshots[-1:])
        if not self._lake.swap(table, found, changed):
            raise CommitConflictError(table=table, attempts=1)


class _Snapshots:
    """Lists the snapshots of tables and rolls back to them; they have no names here."""

    def __init__(self, lake: MemoryLake) -> None:
        self._lake = lake

    def list(self, table: TableName) -> Sequence[Snapshot]:
        """The snapshots that can still be read, newest first."""
        found = self._lake.find(table)
        head = found.head if found else None
        main, at = set[int](), head.snapshot_id if head else None
        by_id = {s.snapshot_id: s for s in found.snapshots} if found else {}
        while at in by_id:
            main.add(at)
            at = by_id[at].parent_id
        return [
            Snapshot(
                snapshot_id=s.snapshot_id,
                parent_id=s.parent_id,
                committed_at=s.committed,
                operation=s.operation,
                rows=sum(map(len, s.files)),
                on_main=s.snapshot_id in main,
            )
            for s in reversed(found.snapshots if found else ())
        ]

    def published_at(self, table: TableName, time: datetime) -> int | None:
        """The snapshot that readers saw at a time."""
        found = self._lake.find(table)
        seen = [s.snapshot_id for s in (found.snapshots if found else ()) if s.committed <= time]
        return seen[-1] if seen else None

    def tag(self, table: TableName, name: str, snapshot_id: int) -> None:
        """Refused: snapshots have no names here."""
        raise NotImplementedError

    branch = tag

    def forget(self, table: TableName, name: str) -> None:
        """Refused: snapshots have no names here."""
        raise NotImplementedError

    def roll_back(
        self, table: TableName, snapshot_id: int, properties: Mapping[str, str], *, planned_on: TableState
    ) -> None:
        """Publish an earlier snapshot again and set ``properties`` in one commit; empty ones are removed.

        Raises:
            CommitConflictError: The table is no longer in the planned state; nothing was changed.
        """
        found = self._lake.find(table)
        then = next((s for s in found.snapshots if s.snapshot_id == snapshot_id), None) if found else None
        if found is None or then is None or _version(found) != planned_on.version:
            raise CommitConflictError(table=table, attempts=1)
        kept = {**found.properties, **properties}
        changed = replace(
            found,
            files=then.files,
            properties={k: v for k, v in kept.items() if v},
            snapshots=(*(s for s in found.snapshots if s is not then), then),
            version=found.version + 1,
        )
        if not self._lake.swap(table, found, changed):
            raise CommitConflictError(table=table, attempts=1)


def _state(found: _Table, stages: Sequence[str]) -> TableState:
    changed = next((s for s in reversed(found.snapshots) if s.operation != "replace"), found.head)
    return TableState(
        columns=found.columns,
        bookmark=CommitReport.from_property(found.properties.get(BOOKMARK)),
        snapshot_id=changed.snapshot_id if changed else None,
        snapshot_time=int(changed.committed.timestamp() * 1000) if changed else None,
        rows=sum(map(len, found.files)),
        branches=stages,
        properties=found.properties,
        uuid=found.uuid,
        version=_version(found),
    )


def _version(found: _Table) -> str:
    return f"{found.uuid}/{found.version}"


def _new_snapshot(
    lake: MemoryLake, found: _Table, files: tuple[tuple[Row, ...], ...], operation: str, bookmark: str | None
) -> _Snapshot:
    return _Snapshot(
        snapshot_id=next(lake.ids),
        parent_id=found.head.snapshot_id if found.head else None,
        committed=datetime.now(UTC),
        operation=operation,
        files=files,
        bookmark=bookmark,
    )


def _rows(frame: Any) -> list[Row]:
    """The rows of a ``Rows`` or of a Spark frame."""
    if isinstance(frame, Rows):
        return list(frame.rows)
    return [dict(zip(frame.columns, row, strict=True)) for row in frame.collect()]


def _spark_frame(session: SparkSession, rows: Sequence[Row], columns: Mapping[str, T.DataType]) -> Any:
    from pyspark.sql import types as T

    schema = T.StructType([T.StructField(name, kind) for name, kind in columns.items()])
    wanted = [tuple(_as_wide(row.get(name), kind) for name, kind in columns.items()) for row in rows]
    return session.createDataFrame(wanted, schema)


def _as_wide(value: Any, kind: T.DataType) -> Any:
    """A value with the fields that were added to its type since it was written."""
    from pyspark.sql import types as T

    if not isinstance(kind, T.StructType) or value is None:
        return value
    held = value.asDict() if hasattr(value, "asDict") else dict(zip(kind.names, value, strict=False))
    return tuple(_as_wide(held.get(f.name), f.dataType) for f in kind.fields)


def _as_files(frame: Any) -> str:
    folder = tempfile.mkdtemp(prefix="memory_format_")
    frame.write.mode("overwrite").parquet(folder)
    return f"parquet.`{folder}`"


def _identity(row: Row, on: Sequence[str]) -> tuple[Any, ...]:
    return tuple(row[c] for c in on)


def _value(row: Row, column: str) -> Any:
    value: Any = row
    for part in column.split("."):
        value = value[part] if isinstance(value, dict) else getattr(value, part, None)
        if value is None:
            return None
    return cast("Any", value)
