"""Old rows leave a current table: to its archive, or away (``retention`` in tables.yml)."""

from __future__ import annotations

import datetime as dt
import logging
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import BATCH, OP, TRUNCATE, column, columns
from kedro_lakehouse.changes.lifetimes import (
    MOVED,
    archived_rows_that_count,
    archived_rows_to_replace,
    old_rows_condition,
)
from kedro_lakehouse.commits import marks, runner
from kedro_lakehouse.commits.cache import cache
from kedro_lakehouse.errors import (
    CommitConflictError,
    IncompatibleTypeError,
    MissingColumnError,
    UnsupportedError,
)
from kedro_lakehouse.formats.base import Layout
from kedro_lakehouse.formats.maintenance import Action, MaintainsTables, MaintenanceReport, Storage
from kedro_lakehouse.names import quote
from kedro_lakehouse.ops.report import now

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from kedro_lakehouse.config.lifetimes import RetentionConfig
    from kedro_lakehouse.formats.base import Stage, TableState
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.ops.lease import Lease
    from kedro_lakehouse.ops.report import CommitReport

logger = logging.getLogger(__name__)

_STEPS: Final = ("ingestion", "current", "history")
_DATED: Final = frozenset({"date", "timestamp", "timestamp_ntz"})
_INSTANT: Final = dt.timedelta(microseconds=1)


def move_old_rows(
    table: LakeTable, *, at: dt.datetime | None = None, dry_run: bool = False
) -> MaintenanceReport | None:
    """Move the rows of a current table that are old by its ``retention``; None if it has none to move.

    A row is old if the declared column is before the start of the day (UTC) that lies ``after`` before the
    present one. The archive is written first, then the rows leave the table; each is one commit.

    Args:
        table: The table.
        at: The time that decides which rows are old; default: the clock.
        dry_run: Say what is due by metadata alone, and write nothing.

    Guarantees:
        Both tables together show the rows that the change log folds to, before, between and after the two
        commits. If this is killed in between, the next call ends in the same tables. Bookmarks stay.

    Raises:
        MissingColumnError: The table has no such column.
        IncompatibleTypeError: The column has neither dates nor times.
        CommitConflictError: Other writers won every race until the deadline.
    """
    retention = table.declared.retention if table.declared is not None else None
    if retention is None or table.conversion is not None:
        return None
    limit = retention.limit(at or dt.datetime.now(dt.UTC))
    if not _is_due(table, retention, limit):
        return None
    before = _storage(table)
    if dry_run:
        return _report(table, retention, limit, before)
    moved = runner.planned_again(table, _STEPS, lambda held: _move(table, retention, limit, held))
    if not moved:
        return None
    where = table.stored("archive") if retention.to == "archive" else "nowhere"
    logger.info("%s: %s rows from before %s went to %s", table, f"{moved:,}", f"{limit:%Y-%m-%d}", where)
    return _report(table, retention, limit, before, moved)


def rows_of_both(table: LakeTable) -> DataFrame:
    """The rows of a current table and of its archive together, each key once; a lazy frame.

    Raises:
        UnsupportedError: The table was rolled back to before its archive.
    """
    while True:
        current = table.state("current")
        rows = _rows_of_both(table, current)
        now = table.state("current")
        if (now.version if now else None) == (current.version if current else None):
            return rows  # else rows may have moved between two looks


def _rows_of_both(table: LakeTable, current: TableState | None) -> DataFrame:
    archive, rows = table.state("archive"), table.read("current")
    if archive is None or current is None or not marks.last_move(current):
        return rows
    if current.batch < archive.batch:
        raise UnsupportedError(
            what=f"{table} was rolled back to batch {current.batch}; its archive is of {archive.batch}.",
            remedy="Run `kedro run`, which applies the later batches again; or ask both tables apart.",
        )
    counted = archived_rows_that_count(
        table.read("archive"), rows, _touched(table, archive.batch, current.batch),
        table.config.keys, marks.last_move(current),
    )  # fmt: skip
    shared = [name for name in rows.columns if name in counted.columns]
    return rows.unionByName(counted.select(*columns(shared)), allowMissingColumns=True)


def _touched(table: LakeTable, after: int, upto: int) -> DataFrame:
    """The keys that the change log has events of in some batches, whatever was decided about the events."""
    events = table.read("changes").where((column(BATCH) > after) & (column(BATCH) <= upto))
    return events.where(column(OP) != TRUNCATE).select(*columns(table.config.keys)).distinct()


def _is_due(table: LakeTable, retention: RetentionConfig, limit: dt.datetime) -> bool:
    """Whether metadata allows that the table has old rows; no JVM is started for formats that need none."""
    state = table.state("current")
    if state is None or state.bookmark is None or state.is_held:
        return False
    kind = _kind(table, retention, state)
    last = limit - _INSTANT
    if kind == "date":
        return table.format.may_hold(table.name, retention.column, dt.date.min, last.date())
    first = dt.datetime.min.replace(tzinfo=dt.UTC)
    naive = kind == "timestamp_ntz"
    ends = [moment.replace(tzinfo=None) if naive else moment for moment in (first, last)]
    return table.format.may_hold(table.name, retention.column, *ends)


def _kind(table: LakeTable, retention: RetentionConfig, state: TableState) -> str:
    name = retention.column
    if name not in state.columns:
        found = [c for c in state.columns if not c.startswith("_")]
        raise MissingColumnError(table=table.name, missing=[name], found=found, place="`retention`")
    kind = state.columns[name].typeName()
    if kind not in _DATED:
        raise IncompatibleTypeError(
            table=table.name, column=name, existing=kind, incoming="a date or a time", place="`retention`"
        )
    return kind


@dataclass(frozen=True, kw_only=True)
class _Move:
    """One move: the old rows, how many, their number, and the states on which it was planned."""

    rows: DataFrame
    count: int
    number: int
    condition: str
    current: TableState
    archive: TableState | None


def _move(table: LakeTable, retention: RetentionConfig, limit: dt.datetime, held: Lease) -> int:
    current, archive = table.state("current"), table.state("archive")
    if current is None or current.bookmark is None or (archive is not None and archive.batch > current.batch):
        return 0  # rolled back to before its archive: the next run brings it up to it again
    condition = old_rows_condition(quote(retention.column), _kind(table, retention, current), limit)
    with ExitStack() as cached, runner.lost_races(table.format, {table.name: current}):
        old = cache(table.read("current").where(condition), cached)
        count = old.count()
        if not count:
            return 0
        move = _Move(
            rows=old, count=count, number=marks.last_move(current) + 1, condition=condition,
            current=current, archive=archive,
        )  # fmt: skip
        changes: list[runner.Change] = [_Removal(table, move)]
        if retention.to == "archive":
            changes.insert(0, _Archiving(table, move, retention.column, cached))
        runner.attempt(changes, held)
    return count


class _Archiving(runner.Change):
    """Writes old rows into the archive, in the place of those of the same keys."""

    def __init__(self, table: LakeTable, move: _Move, by: str, cached: ExitStack) -> None:
        super().__init__(
            table, table.stored("archive"), step="archive", batch=move.current.batch,
            inputs={table.name: move.current},
        )  # fmt: skip
        self._move, self._by, self._cached = move, by, cached

    @property
    def layout(self) -> Layout:
        """In the order in which rows grow old, which is that of questions about them, in large files."""
        config, keys = self.table.config, self.table.config.keys
        declared = {k: v for k, v in config.properties.items() if k == "format-version"}
        return Layout(
            sort_by=(self._by,),
            identity=keys,
            properties={**declared, **self.format.capabilities.archive_properties},
        )

    def is_done(self, state: TableState | None) -> bool:
        planned = self._move.archive
        if (state.version if state else None) != (planned.version if planned else None):
            raise CommitConflictError(table=self.target, attempts=1)
        return False

    def columns(self, _: TableState | None) -> Mapping[str, T.DataType]:
        return dict(self._move.current.columns) | {MOVED: T.LongType()}

    def write(self, stage: Stage, state: TableState) -> CommitReport:
        move, table = self._move, self.table
        rows = move.rows.withColumn(MOVED, F.lit(move.number).cast("long"))
        gone = self._write(stage, state, rows)
        stage.expect(state.rows - gone + move.count)
        bookmark = move.current.bookmark
        assert bookmark is not None, self.target  # noqa: S101 - looked at before
        return table.report(
            stage="archive", batch=bookmark.batch, batches=0, content_hash=bookmark.content_hash,
            follows=bookmark.follows, epoch=bookmark.epoch, counts={"inserted": move.count, "deleted": gone},
        )  # fmt: skip

    def _write(self, stage: Stage, state: TableState, rows: DataFrame) -> int:
        """Stage the rows; return how many others they replace."""
        number, keys = self._move.number, self.table.config.keys
        if number == 1:  # the current table was whole: nothing of an earlier archive counts
            stage.replace(rows)
            return state.rows
        doomed = cache(self._doomed(state), self._cached)
        gone = doomed.count() if state.rows else 0
        if not gone:
            stage.append(rows)
        elif keys:
            stage.merge(doomed, rows, keys)
        else:
            stage.replace_where(f"{quote(MOVED)} >= {number}", rows)
        return gone

    def _doomed(self, state: TableState) -> DataFrame:
        table, move = self.table, self._move
        keys = table.config.keys
        touched = _touched(table, state.batch, move.current.batch)
        return archived_rows_to_replace(table.read("archive"), touched, move.rows, keys, move.number)

    def properties(self, _: TableState) -> Mapping[str, str]:
        return {marks.MOVED: str(self._move.number)}


class _Removal(runner.Change):
    """Removes the old rows from the current table, which notes the move that took them."""

    def __init__(self, table: LakeTable, move: _Move) -> None:
        super().__init__(table, table.name, step="retention", batch=move.current.batch)
        self._move = move

    def is_done(self, state: TableState | None) -> bool:
        if state is None or state.version != self._move.current.version:
            raise CommitConflictError(table=self.target, attempts=1)
        return False

    def write(self, stage: Stage, state: TableState) -> CommitReport:
        assert state.bookmark is not None, self.target  # noqa: S101 - looked at before
        keys = self.table.config.keys
        if keys and not self.table.in_catalog:  # Iceberg drops files whose rows are all old unread
            stage.merge(self._move.rows.select(*columns(keys)), None, keys)
        else:
            stage.replace_where(self._move.condition, self._move.rows.limit(0))
        stage.expect(state.rows - self._move.count)
        return state.bookmark

    def properties(self, _: TableState) -> Mapping[str, str]:
        # Without keys nothing tells a row that a rollback would bring back from the same one in the archive.
        last = {} if self.table.config.keys else {marks.FOLDED_AT: now()}
        return {marks.MOVED: str(self._move.number), **last}


def _report(
    table: LakeTable, retention: RetentionConfig, limit: dt.datetime, before: Storage, moved: int = 0
) -> MaintenanceReport:
    known = f"{moved:,} rows" if moved else "rows"
    action = Action(
        work="move_old_rows" if retention.to == "archive" else "remove_old_rows",
        files=moved,
        bytes=0,
        reason=f"{known} whose {retention.column} is before {limit:%Y-%m-%d}",
    )
    after = _storage(table) if moved else before
    return MaintenanceReport(table=str(table), actions=[action], before=before, after=after)


def _storage(table: LakeTable) -> Storage:
    lake = table.format
    found = lake.maintenance.storage(table.name) if isinstance(lake, MaintainsTables) else None
    return found or Storage(files=0, bytes=0)
