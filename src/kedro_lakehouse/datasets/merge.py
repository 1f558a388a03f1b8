"""One commit of a current or history table: plan, stage, audit, publish with the bookmark."""

from __future__ import annotations

import logging
import random
import time
from contextlib import ExitStack
from time import perf_counter
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import (
    BATCH,
    DELETE,
    OP,
    ORDER,
    TRUNCATE,
    column,
    columns,
    value_columns,
)
from kedro_lakehouse.changes.plan import (
    ACTION,
    CLOSE,
    INSERT,
    LATE,
    REMOVE,
    TIED,
    UPDATE,
    Kind,
    Target,
    blind,
    first_rows,
    identity_columns,
    mark_late,
)
from kedro_lakehouse.changes.plan_rows import changed_rows, rows_by_order
from kedro_lakehouse.datasets.audit import refuse_doubled_keys
from kedro_lakehouse.datasets.blocking import judge_stage
from kedro_lakehouse.datasets.drift import made_for, refuse_drift
from kedro_lakehouse.datasets.kept import keep
from kedro_lakehouse.datasets.observed import counted
from kedro_lakehouse.datasets.publish import acknowledge
from kedro_lakehouse.datasets.trim import horizon_of
from kedro_lakehouse.datasets.withdrawn import accepted_events
from kedro_lakehouse.errors import AuditFailedError, CommitConflictError
from kedro_lakehouse.formats.base import Layout, enter_phase
from kedro_lakehouse.ops.report import CommitReport, now

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.contract import TableContract
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.datasets.token import BatchToken
    from kedro_lakehouse.formats.base import Stage, TableState
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project

logger = logging.getLogger(__name__)

_ATTEMPTS: Final = 10
_FEW: Final = 500_000
"""So many keys are sent whole to every task that reads the target."""
_METRIC: Final = {
    "current": {INSERT: "inserted", UPDATE: "updated", REMOVE: "deleted"},
    "history": {INSERT: "opened", CLOSE: "closed", UPDATE: "rewritten", REMOVE: "removed"},
}


class MergeCommit:
    """Applies the pending batches of a table to one of its targets."""

    def __init__(
        self, project: Project, name: TableName, table: TableConfig, contract: TableContract, kind: Kind
    ) -> None:
        """Keep what the commit is about."""
        self._project, self._name, self._table, self._contract, self._kind = (
            project,
            name,
            table,
            contract,
            kind,
        )
        self._format = project.format_of(name)
        self._target, self._record = name.with_suffix(kind), name.with_suffix("changes")
        self._layout = Layout(
            partition_by=table.partition_by,
            sort_by=table.sort_by,
            properties=made_for(contract, kind) | dict(table.properties),
            identity=identity_columns(kind, contract),
        )

    def run(self, pending: DataFrame, token: BatchToken) -> None:
        """Commit the pending batches; plan again on a conflict; do nothing if the target has them.

        Raises:
            CommitConflictError: Other writers won every race.
            AuditFailedError: What was staged is not what was planned; nothing was published.
            ExpectationFailedError: Staged rows fail an expectation that blocks; nothing was published.
        """
        with self._project.lease(self._name, self._kind):
            for attempt in range(_ATTEMPTS):
                state = self._format.state(self._target)
                if state is not None and state.batch >= token.batch:
                    return
                if token.batch == 0:
                    return
                try:
                    self._commit(pending, token, state)
                except CommitConflictError:
                    logger.warning("%s %s: another writer was faster, planning again", self._name, self._kind)
                    time.sleep(random.uniform(0, 0.1 * 2**attempt))  # noqa: S311 - jitter
                else:
                    return
        raise CommitConflictError(table=self._target, attempts=_ATTEMPTS)

    def _commit(self, pending: DataFrame, token: BatchToken, state: TableState | None) -> None:
        begun = perf_counter()
        lake, held = self._format, state.batch if state else 0
        events = pending.where(column(BATCH) > held)
        truncates = lake.may_hold(self._record, OP, TRUNCATE, TRUNCATE)
        empty = state is None or (state.rows == 0 and held == 0)
        if empty or self._kind == "history":
            rows = first_rows(self._kind, events, self._contract, truncates=truncates)
        else:  # only the columns are asked for: to analyse the fold takes longer than some merges
            rows = events.select(*columns(value_columns(events)), column(ORDER))
        state = self._ensure(state, rows)
        with lake.stage(self._target, state) as stage:
            if empty:
                counts = self._stage_first(stage, rows)
            else:
                target = self._planned_on(held, token.batch, truncates=truncates)
                counts = self._stage_changes(stage, events, target, state)
            enter_phase("staged", self._name, self._kind, token.batch)
            judge_stage(self._project, self._name, self._kind, stage, events, before=state.rows)
            report = CommitReport(
                table=str(self._name), stage=self._kind, batch=token.batch, batches=token.batch - held,
                content_hash=token.content_hash, run_id=self._project.run_id,
                correlation_id=self._project.correlation_id, committed_at=now(),
                counts=counts,
            )  # fmt: skip
            snapshot = stage.publish(report, properties=self._changed_properties(state))
        enter_phase("published", self._name, self._kind, token.batch)
        acknowledge(self._project, report, snapshot, seconds=perf_counter() - begun)

    def _changed_properties(self, state: TableState) -> dict[str, str]:
        """Declared properties that the table does not have yet: the next commit writes by them."""
        declared = {k: v for k, v in self._table.properties.items() if k != "format-version"}
        return {k: v for k, v in declared.items() if state.properties.get(k) != v}

    def _ensure(self, state: TableState | None, rows: DataFrame) -> TableState:
        wanted = {f.name: f.dataType for f in rows.schema.fields}
        lake = self._format
        if state is None:
            lake.create(self._target, wanted, self._layout)
        else:
            refuse_drift(self._target, state, self._contract, wanted, self._kind)
            lake.evolve(self._target, wanted, state)
        found = lake.state(self._target)
        if found is None:
            raise AuditFailedError(
                table=self._target, batch=0, check="the table is there", expected="a table", found="none"
            )
        return found

    def _planned_on(self, held: int, batch: int, *, truncates: bool) -> Target:
        """The target as planning needs it; what metadata tells spares passes over tables."""
        lake = self._format
        past = accepted_events(self._project, self._name).where(column(BATCH) <= batch)
        new_truncates = (
            truncates and not past.where((column(OP) == TRUNCATE) & (column(BATCH) > held)).isEmpty()
        )
        known = lake.bounds(self._record, self._contract.keys, BATCH, held + 1, batch)
        ranges = {} if new_truncates else known.ranges
        return Target(
            kind=self._kind, rows=lake.read(self._target), past=past, bookmark=held,
            deletes=lake.may_hold(self._record, OP, DELETE, DELETE), truncates=truncates,
            new_truncates=new_truncates, few=known.rows <= _FEW, ranges=ranges,
            horizon=horizon_of(lake.state(self._record)),
        )  # fmt: skip

    def _stage_first(self, stage: Stage, rows: DataFrame) -> dict[str, int]:
        """Write the rows of a table that holds nothing yet."""
        with ExitStack() as kept:
            rows, count = counted(rows, kept, sorted_write=self._layout.sorts_writes)
            stage.append(rows)
            written = count()
        self._audit(stage, inserted=written, removed=0, before=0)
        return {_METRIC[self._kind][INSERT]: written, "late": 0}

    def _stage_changes(
        self, stage: Stage, events: DataFrame, target: Target, state: TableState
    ) -> dict[str, int]:
        of_keys = events.where(column(OP) != TRUNCATE) if target.truncates else events
        if blind(target, self._contract) and not target.new_truncates:
            counts = self._stage_by_order(stage, of_keys, target, state)
            if counts is not None:
                return counts
        with ExitStack() as kept:
            marked = keep(mark_late(of_keys, target, self._contract), kept)
            counted = [F.count(F.when(column(c), 1)) for c in (LATE, TIED)]
            late, tied = marked.agg(*counted).first() or (0, 0)
            changed = keep(changed_rows(marked, target, self._contract, late=late > 0, tied=tied > 0), kept)
            found = {r[ACTION]: r["count"] for r in changed.groupBy(ACTION).count().collect()}
            self._apply(stage, changed, found, target, state)
            stale = self._stale(marked, changed, target, late, tied)
        return self._counts(found, late, stale)

    def _stage_by_order(
        self, stage: Stage, events: DataFrame, target: Target, state: TableState
    ) -> dict[str, int] | None:
        """Apply events in one pass over them and the target's keys; None where a tie needs more than that."""
        with ExitStack() as kept:
            planned = keep(rows_by_order(events, target, self._contract), kept)
            marked = [F.count(F.when(column(c), 1)).alias(c) for c in (LATE, TIED)]
            sums = (F.count(F.lit(1)).alias("n"), *marked)
            told = planned.groupBy(ACTION).agg(*sums).collect()
            if any(r[TIED] for r in told):
                return None
            found = {r[ACTION]: r["n"] for r in told if r[ACTION]}
            late = sum(r[LATE] for r in told)
            changed = planned.where(column(ACTION).isNotNull()).drop(LATE, TIED)
            self._apply(stage, changed, found, target, state)
        return self._counts(found, late, late)

    def _counts(self, found: dict[str, int], late: int, stale: int) -> dict[str, int]:
        names = _METRIC[self._kind]
        counts = {names[a]: found.get(a, 0) for a in names} | {"late": late}
        return counts | ({"stale_ignored": stale} if self._kind == "current" else {})

    def _stale(self, marked: DataFrame, changed: DataFrame, target: Target, late: int, tied: int) -> int:
        """How many late events left their row as it was; both frames are in memory."""
        if self._kind == "history" or not late:
            return 0
        earlier = late - tied if blind(target, self._contract) else 0
        unsure = marked.where(column(TIED if blind(target, self._contract) else LATE))
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
        doomed = changed.where(column(ACTION) != INSERT).select(*columns(identity)) if gone else None
        names = [c for c in changed.columns if c != ACTION]
        rows = changed.where(column(ACTION) != REMOVE).select(*columns(names)) if written else None
        stage.merge(doomed, rows, identity, near={} if target.new_truncates else target.ranges)
        self._audit(stage, inserted=written, removed=gone, before=state.rows)

    def _audit(self, stage: Stage, *, inserted: int, removed: int, before: int) -> None:
        """Compare the staged rows with the plan, and look for doubled keys among the rows written.

        The rows that leave are deleted by identity and counted; so if the rows that come are unique
        among themselves, and the counts agree, the whole table is unique as it was before.
        """
        stage.expect(before - removed + inserted)
        if inserted:
            refuse_doubled_keys(stage, self._kind, self._contract.keys)
