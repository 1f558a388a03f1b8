"""Apply pending events to a target of a table with keys, with Spark."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import BATCH, DELETE, OP, ORDER, TRUNCATE, column, columns, value_columns
from kedro_lakehouse.changes.lifetimes import rows_that_left, with_rows_that_left
from kedro_lakehouse.changes.plan import (
    ACTION,
    INSERT,
    LATE,
    REMOVE,
    TIED,
    MergePlan,
    Target,
    first_rows,
    identity_columns,
    mark_late,
    needs_no_target_values,
)
from kedro_lakehouse.changes.plan_rows import changed_rows, rows_by_order
from kedro_lakehouse.commits.audit import refuse_doubled_keys
from kedro_lakehouse.commits.blocking import validate_stage
from kedro_lakehouse.commits.cache import cache, write_counted
from kedro_lakehouse.commits.excluded import accepted_events, pending_events
from kedro_lakehouse.commits.marks import DISTINCT, horizon_of, last_move
from kedro_lakehouse.commits.rows import counts_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql import types as T

    from kedro_lakehouse.commits.token import BatchToken
    from kedro_lakehouse.formats.base import Stage, TableState
    from kedro_lakehouse.lake_table import LakeTable

_FEW: Final = 10_000
"""Planned rows of up to this many pending events are kept as they are."""


class MergeFrames:
    """Turns pending events into the first rows of a target, or into a merge into its existing rows."""

    def __init__(self, table: LakeTable, plan: MergePlan, token: BatchToken) -> None:
        """Take the plan, some of whose events the target may have applied already."""
        self._table, self._kind, self._contract = table, plan.kind, plan.contract
        self._pending, self._token = pending_events(table, plan, token), token
        self._named = plan.events
        self._format = table.format
        self._target, self._change_log = table.stored(plan.kind), table.changes
        self._rows: tuple[tuple[int, bool], DataFrame] | None = None

    def columns(self, state: TableState | None) -> dict[str, T.DataType]:
        """The columns that the target must have."""
        return {f.name: f.dataType for f in self._new_rows(state).schema.fields}

    def write(self, stage: Stage, state: TableState) -> dict[str, int]:
        """Stage the rows that the pending events insert, change and delete; compare them with the plan."""
        if is_empty(state):
            return self._stage_first(stage, self._new_rows(state))
        target = self._planned_on(state.batch, self._token.batch)
        return self._stage_changes(stage, self._events(state), target, state)

    def validate(self, stage: Stage, state: TableState) -> None:
        """Validate the staged rows against the blocking expectations."""
        validate_stage(self._table, self._kind, stage, self._events(state), before=state.rows)

    def _events(self, state: TableState | None) -> DataFrame:
        return self._pending.where(column(BATCH) > (state.batch if state else 0))

    @cached_property
    def _truncates(self) -> bool:
        """Whether the change log may contain a truncate."""
        return self._format.may_hold(self._change_log, OP, TRUNCATE, TRUNCATE)

    @cached_property
    def _has_distinct_keys(self) -> bool:
        """Whether the pending events are one batch in which no key has two events."""
        log = self._format.state(self._change_log)
        return log is not None and log.properties.get(DISTINCT) == str(self._token.batch)

    def _new_rows(self, state: TableState | None) -> DataFrame:
        """The first rows of an empty target; for one with rows, a frame that only shows the columns."""
        held, empty = state.batch if state else 0, is_empty(state)
        if self._rows is None or self._rows[0] != (held, empty):
            events = self._events(state)
            if empty or self._kind == "history":
                distinct = empty and held == 0 and self._has_distinct_keys
                truncates = not distinct and self._truncates
                rows = first_rows(self._kind, events, self._contract, truncates=truncates, distinct=distinct)
            else:  # only the columns are needed: analysing the fold takes longer than some merges
                rows = events.select(*columns(value_columns(events)), column(ORDER))
            self._rows = (held, empty), rows
        return self._rows[1]

    def _planned_on(self, held: int, batch: int) -> Target:
        """The target with the facts that planning needs; facts from metadata save passes over tables."""
        lake, truncates = self._format, self._truncates
        past = accepted_events(self._table).where(column(BATCH) <= batch)
        new_truncates = (
            truncates and not past.where((column(OP) == TRUNCATE) & (column(BATCH) > held)).isEmpty()
        )
        known = lake.bounds(self._change_log, self._contract.keys, BATCH, held + 1, batch)
        ranges = {} if new_truncates else known.ranges
        return Target(
            kind=self._kind,
            rows=lake.read(self._target),
            past=past,
            bookmark=held,
            deletes=lake.may_hold(self._change_log, OP, DELETE, DELETE),
            truncates=truncates,
            new_truncates=new_truncates,
            pending=known.rows,
            ranges=ranges,
            horizon=horizon_of(lake.state(self._change_log)),
        )

    def _stage_first(self, stage: Stage, rows: DataFrame) -> dict[str, int]:
        """Stage the first rows of an empty table."""
        written = write_counted(rows, stage.append, self._table.config)
        log = self._format.state(self._change_log)
        # A row for each event, of which no two have the same key: the counts say that keys are unique.
        if self._has_distinct_keys and log is not None and log.rows == written:
            stage.expect(written)
        else:
            self._audit(stage, inserted=written, removed=0, before=0)
        return counts_of(self._kind, {INSERT: written}, late=0, stale=0)

    def _stage_changes(
        self, stage: Stage, events: DataFrame, target: Target, state: TableState
    ) -> dict[str, int]:
        of_keys = events.where(column(OP) != TRUNCATE) if target.truncates else events
        with ExitStack() as cached:
            few = _changes_few_rows(target)
            left = self._rows_that_left(target, state, cached)
            if left is not None:
                target = replace(target, rows=target.rows.unionByName(left, allowMissingColumns=True))
            elif needs_no_target_values(target, self._contract) and not target.new_truncates:
                counts = self._stage_by_order(stage, of_keys, target, state)
                if counts is not None:
                    return counts
            marked = cache(mark_late(of_keys, target, self._contract), cached, few=few)
            counted = [F.count(F.when(column(c), 1)) for c in (LATE, TIED)]
            late, tied = marked.agg(*counted).first() or (0, 0)
            changed = changed_rows(marked, target, self._contract, late=late > 0, tied=tied > 0)
            whole = with_rows_that_left(changed, left, self._contract.keys) if left is not None else changed
            planned = cache(whole, cached, few=few)
            found = {r[ACTION]: r["count"] for r in planned.groupBy(ACTION).count().collect()}
            self._apply(stage, planned, found, target, state)
            changed = planned if left is None else changed
            stale = self._stale(marked, changed, target, late, tied)
        return counts_of(self._kind, found, late=late, stale=stale)

    def _rows_that_left(self, target: Target, state: TableState, cached: ExitStack) -> DataFrame | None:
        """The rows of the events' keys that retention took from the table; None if there are none."""
        if self._kind == "history" or not last_move(state):
            return None
        # Excluded events name keys too: the archive leaves each key to the table that the log has events of.
        upto = column(BATCH) <= self._token.batch
        named = self._named.where(upto & (column(BATCH) > state.batch) & (column(OP) != TRUNCATE))
        left = cache(rows_that_left(named, target, self._contract), cached, few=_changes_few_rows(target))
        return None if left.isEmpty() else left

    def _stage_by_order(
        self, stage: Stage, events: DataFrame, target: Target, state: TableState
    ) -> dict[str, int] | None:
        """Apply events in one pass over them and the target's keys; None if a tie needs more than that."""
        with ExitStack() as cached:
            planned = rows_by_order(events, target, self._contract)
            planned = cache(planned, cached, few=_changes_few_rows(target))
            marked = [F.count(F.when(column(c), 1)).alias(c) for c in (LATE, TIED)]
            sums = (F.count(F.lit(1)).alias("n"), *marked)
            counted = planned.groupBy(ACTION).agg(*sums).collect()
            if any(r[TIED] for r in counted):
                return None
            found = {r[ACTION]: r["n"] for r in counted if r[ACTION]}
            late = sum(r[LATE] for r in counted)
            changed = planned.where(column(ACTION).isNotNull()).drop(LATE, TIED)
            self._apply(stage, changed, found, target, state)
        return counts_of(self._kind, found, late=late, stale=late)

    def _stale(self, marked: DataFrame, changed: DataFrame, target: Target, late: int, tied: int) -> int:
        """How many late events left their row unchanged; both frames are cached."""
        if self._kind == "history" or not late:
            return 0
        earlier = late - tied if needs_no_target_values(target, self._contract) else 0
        unsure = marked.where(column(TIED if needs_no_target_values(target, self._contract) else LATE))
        if earlier == late:
            return late
        keys = list(self._contract.keys)
        return earlier + unsure.join(changed.select(*columns(keys)), keys, "left_anti").count()

    def _apply(
        self, stage: Stage, changed: DataFrame, found: dict[str, int], target: Target, state: TableState
    ) -> None:
        identity = identity_columns(self._kind, self._contract)
        gone = sum(n for action, n in found.items() if action != INSERT)
        written = sum(n for action, n in found.items() if action != REMOVE)
        if not (gone or written):
            return
        rows_to_delete = changed.where(column(ACTION) != INSERT).select(*columns(identity)) if gone else None
        names = [c for c in changed.columns if c != ACTION]
        rows = changed.where(column(ACTION) != REMOVE).select(*columns(names)) if written else None
        stage.merge(rows_to_delete, rows, identity, near={} if target.new_truncates else target.ranges)
        self._audit(stage, inserted=written, removed=gone, before=state.rows)

    def _audit(self, stage: Stage, *, inserted: int, removed: int, before: int) -> None:
        """Compare the staged row count with the plan, and look for doubled keys among the appended rows.

        The deleted rows are matched by their identity columns and counted. So if the appended rows have no
        doubled key and the counts agree, the keys of the whole table are as unique as they were before.
        """
        stage.expect(before - removed + inserted)
        if inserted:
            refuse_doubled_keys(stage, self._kind, self._contract.keys)


def _changes_few_rows(target: Target) -> bool:
    """Whether the pending events change few rows: a truncate may change all of them."""
    return target.pending is not None and target.pending <= _FEW and not target.new_truncates


def is_empty(state: TableState | None) -> bool:
    """Whether a target has neither rows nor batches yet."""
    return state is None or (state.rows == 0 and state.batch == 0)
