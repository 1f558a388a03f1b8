"""The commit of a target (current or history table): apply pending batches, or refold the change log."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from kedro_lakehouse.changes.events import OP, TRUNCATE
from kedro_lakehouse.changes.plan import MergePlan, identity_columns
from kedro_lakehouse.commits import runner
from kedro_lakehouse.commits.drift import made_for, refuse_drift
from kedro_lakehouse.commits.engine import engine_of
from kedro_lakehouse.commits.history_view import check_view, ensure_view
from kedro_lakehouse.commits.marks import DECIDED, FOLDED_AT, MOVED, REFOLD, last_move
from kedro_lakehouse.commits.token import BatchToken
from kedro_lakehouse.errors import CommitConflictError, LedgerGapError
from kedro_lakehouse.formats.base import Layout
from kedro_lakehouse.formats.ddl import refuse_layout
from kedro_lakehouse.ops.report import now

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import types as T

    from kedro_lakehouse.changes.plan import Kind
    from kedro_lakehouse.commits.rows import TargetRows
    from kedro_lakehouse.formats.base import Stage, TableState
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.ops.report import CommitReport

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TargetPlan:
    """Which target is brought up to which batch of a change log, and the state of the change log."""

    kind: Kind
    token: BatchToken
    change_log: TableState | None


class TargetCommit(runner.Change):
    """Applies the pending batches of a table to one of its targets."""

    def __init__(self, table: LakeTable, plan: TargetPlan, rows: TargetRows) -> None:
        """Take the plan, and the rows that the target gets by it."""
        inputs = {table.changes: plan.change_log}
        target = table.stored(plan.kind)
        super().__init__(table, target, step=plan.kind, batch=plan.token.batch, inputs=inputs)
        self._kind, self._token, self._change_log, self._rows = plan.kind, plan.token, plan.change_log, rows
        self._contract = table.contract

    @property
    def layout(self) -> Layout:
        """The declared layout, with the identity columns of a table with keys."""
        keyed = self._contract.write == "merge"
        made = made_for(self._contract, self._kind if keyed else None)
        return Layout(
            partition_by=self.table.config.partition_by,
            sort_by=self.table.config.sort_by,
            properties=made | dict(self.table.config.properties),
            identity=identity_columns(self._kind, self._contract) if keyed else (),
        )

    def is_done(self, state: TableState | None) -> bool:
        """Whether the target already contains the batches.

        Raises:
            CommitConflictError: The target was rolled back to a state before the batches that were loaded.
        """
        batch = state.batch if state else 0
        if batch < self._token.after:
            raise CommitConflictError(table=self.target, attempts=1)
        return self._token.batch <= batch

    def columns(self, state: TableState | None) -> Mapping[str, T.DataType]:
        """The columns of the rows to write; those of a new table must allow the declared layout."""
        columns: Mapping[str, T.DataType] = self._rows.columns(state)
        if state is None:
            refuse_layout(self.target, columns, self.layout)
        return columns

    def refuse_drift(self, state: TableState, columns: Mapping[str, T.DataType]) -> None:
        """Refuse a declaration with other keys, order, folding rules or tracked columns."""
        kind = self._kind if self._contract.write == "merge" else None
        refuse_drift(self.target, state, self._contract, columns, kind)

    def write(self, stage: Stage, state: TableState) -> CommitReport:
        """Stage the changes that the pending batches make."""
        return self._report(state, self._rows.write(stage, state))

    def _report(self, state: TableState, counts: dict[str, int]) -> CommitReport:
        follows = state.bookmark.content_hash if state.bookmark else ""
        batches = self.batch - state.batch
        return self.report_of(self._token, batches=batches, follows=follows, counts=counts)

    def audit(self, stage: Stage, state: TableState) -> None:
        """Validate the staged rows against the blocking expectations.

        Raises:
            CommitConflictError: The change log that was read was dropped, or created anew, meanwhile.
        """
        self._rows.validate(stage, state)
        changes = self.table.changes
        now = self.format.state(changes)
        if now is None or self._change_log is None or now.uuid != self._change_log.uuid:
            raise CommitConflictError(table=changes, attempts=1)

    def properties(self, state: TableState) -> Mapping[str, str]:
        """The declared properties that the table lacks, and which decisions its rows respect."""
        declared = {k: v for k, v in self.table.config.properties.items() if k != "format-version"}
        wanted = declared | self._decided()
        return {k: v for k, v in wanted.items() if state.properties.get(k, "") != v}

    def _decided(self) -> dict[str, str]:
        return {DECIDED: self.table.decisions.digest(self.table.name, upto=self.batch)}


class Refold(TargetCommit):
    """Replaces all rows of a target with the fold of the whole change log."""

    def __init__(self, table: LakeTable, plan: TargetPlan, *, declared_anew: bool) -> None:
        """Fold up to the plan's batch; ``declared_anew`` allows a declaration that has changed."""
        super().__init__(table, plan, engine_of(table).folded(table, plan.kind, plan.token.batch))
        self._declared_anew, self._since = declared_anew, now()

    def is_done(self, state: TableState | None) -> bool:
        """Whether there is no target to refold."""
        return state is None

    def refuse_drift(self, state: TableState, columns: Mapping[str, T.DataType]) -> None:
        """Refuse drift as other commits do, unless ``declared_anew`` allows it."""
        if not self._declared_anew:
            super().refuse_drift(state, columns)

    def _report(self, state: TableState, counts: dict[str, int]) -> CommitReport:
        held, token = state.bookmark, self._token
        if held is not None and (held.batch, held.content_hash) == (token.batch, token.content_hash):
            return held  # the same batch again: the bookmark stays as it is
        return super()._report(state, counts)

    def properties(self, state: TableState) -> Mapping[str, str]:
        """The rules and decisions that the rows respect now, and the time since which they do."""
        whole = {MOVED: ""} if last_move(state) else {}
        return {**self.layout.properties, **self._decided(), **whole, FOLDED_AT: self._since}

    def dropped_columns(self, state: TableState) -> Sequence[str]:
        """The columns that the declaration no longer includes."""
        wanted = self._rows.columns(state)
        return [c for c in state.columns if c not in wanted]


def commit_pending(table: LakeTable, *pending: tuple[MergePlan, BatchToken]) -> None:
    """Bring targets of a table up to their pending batches, as one set of commits.

    A target whose rows the change log no longer produces is folded again. After a commit to a history, its
    view is as declared. A target that is held since a rollback stays as it is.

    Raises:
        CommitConflictError: Other writers won every race until the deadline.
        AuditFailedError: The staged rows are not the planned ones; nothing was published.
        ExpectationFailedError: Staged rows fail a blocking expectation; nothing was published.
    """
    plans: dict[str, Callable[[], runner.Change | None]] = {}
    has_history = False
    for merge, token in pending:
        kind = merge.kind
        target, change_log = _states(table, kind)
        if runner.is_on_hold(target, f"{table} {kind}", table):
            continue
        has_history = has_history or kind == "history"
        if token.batch > (target.batch if target else 0) or must_refold(table, target, change_log):
            if kind == "history":
                check_view(table, merge.events)
            plans[kind] = _TargetPlanner(table, merge, token)
    if plans:
        runner.run(table, plans)
    if has_history:
        ensure_view(table)


def bring_pending(table: LakeTable) -> None:
    """Apply all pending batches to the targets of a table."""
    commit_pending(table, *[load_pending(table, kind) for kind in table.targets])


class _TargetPlanner:
    """Plans the commit of a target on the states that it finds, each time it is called.

    The events are loaded again if the change log was built anew, or the target was rolled back, since they
    were loaded.
    """

    def __init__(self, table: LakeTable, merge: MergePlan, token: BatchToken) -> None:
        self._table, self._merge, self._token = table, merge, token

    def __call__(self) -> runner.Change | None:
        table, kind = self._table, self._merge.kind
        target, change_log = _states(table, kind)
        with runner.lost_races(table.format, {table.changes: change_log}):
            if self._is_outdated(target, change_log):
                anew, self._token = load_pending(table, kind)
                self._merge = replace(self._merge, events=anew.events)
            if must_refold(table, target, change_log) or self._empties_rows_that_left(target):
                folded = _fold_upto(table, kind, self._token)
                return Refold(table, folded, declared_anew=False) if folded else None
            engine, plan = engine_of(table), TargetPlan(kind, self._token, change_log)
            compute = engine.merged if table.config.write == "merge" else engine.added
            return TargetCommit(table, plan, compute(table, self._merge, self._token))

    def _empties_rows_that_left(self, target: TableState | None) -> bool:
        """Whether a truncate is pending, and the table lacks rows that left it: a fold knows all of them."""
        table = self._table
        if not last_move(target) or not table.format.may_hold(table.changes, OP, TRUNCATE, TRUNCATE):
            return False
        assert target is not None  # noqa: S101 - it has a move
        return engine_of(table).truncates(table, after=target.batch, upto=self._token.batch)

    def _is_outdated(self, target: TableState | None, change_log: TableState | None) -> bool:
        token = self._token
        is_other = change_log is not None and change_log.uuid != token.log
        is_back = (target.batch if target else 0) < token.after
        return is_other or is_back or not holds(self._table, change_log, token.batch, token.content_hash)


def load_pending(table: LakeTable, kind: Kind) -> tuple[MergePlan, BatchToken]:
    """The plan for the accepted events that a target lacks, and the token of their batches."""
    lake, changes, patience = table.format, table.changes, table.patience()
    while True:
        target, change_log = _states(table, kind)
        bookmark = change_log.bookmark if change_log else None
        log = change_log.uuid if change_log else ""
        token = BatchToken.at(table.name, bookmark, after=target.batch if target else 0, log=log)
        try:
            with runner.lost_races(lake, {changes: change_log}):
                events = engine_of(table).pending(table, after=token.after, upto=token.batch)
                return MergePlan(kind=kind, contract=table.contract, events=events), token
        except CommitConflictError as error:  # the change log was dropped, and is created anew
            patience.pause(error)


def _states(table: LakeTable, kind: Kind) -> tuple[TableState | None, TableState | None]:
    """A target and its change log, read in this order, so that the log has every batch of the target."""
    lake = table.format
    return lake.state(table.stored(kind)), lake.state(table.changes)


def must_refold(table: LakeTable, target: TableState | None, change_log: TableState | None) -> bool:
    """Whether a target contains rows that the present change log does not produce.

    There are three reasons: events were deleted from the change log; decisions about events of the target's
    batches were made since; or a run that did not see the change log being built anew committed the target.
    """
    if target is None or target.batch == 0:
        return False
    if change_log is None or change_log.bookmark is None or target.bookmark is None:
        return False
    if target.batch < int(change_log.properties.get(REFOLD, 0)):
        return True
    if not holds(table, change_log, target.batch, target.bookmark.content_hash):
        return True
    return target.properties.get(DECIDED, "") != table.decisions.digest(table.name, upto=target.batch)


def holds(table: LakeTable, change_log: TableState | None, batch: int, content_hash: str) -> bool:
    """Whether a change log contains exactly this batch: by its bookmark, or by the ledger for older ones."""
    head = change_log.bookmark if change_log else None
    if head is None or head.batch < batch:
        return False
    if head.batch == batch:
        return head.content_hash == content_hash
    if head.batch == batch + 1 and head.follows:
        return head.follows == content_hash
    try:
        return table.open_ledger().chain(head).holds(batch, content_hash)
    except LedgerGapError:
        return True  # the ledger cannot contradict it


def refold(table: LakeTable, kind: Kind, *, declared_anew: bool = False) -> None:
    """Replace all rows of a target with the fold of the change log, under the present declaration.

    The target keeps its bookmark; if the change log does not contain that batch, it gets the change log's
    bookmark. A target that does not exist is not created.

    Raises:
        TrackHistoryDriftError: The declaration has changed, and ``declared_anew`` does not allow it.
        AuditFailedError: The staged rows are not one row per key; nothing was published.
        ExpectationFailedError: Staged rows fail a blocking expectation; nothing was published.
        CommitConflictError: Other writers won every race until the deadline.
    """

    def plan() -> runner.Change | None:
        changes = table.changes
        with runner.lost_races(table.format, {changes: table.format.state(changes)}):
            folded = _fold_upto(table, kind, None)
            return Refold(table, folded, declared_anew=declared_anew) if folded else None

    if runner.run(table, {kind: plan}):
        logger.info("%s %s: folded again", table, kind)


def _fold_upto(table: LakeTable, kind: Kind, loaded: BatchToken | None) -> TargetPlan | None:
    """Up to which batch a target is folded: its own or that of the loaded events, whichever is later.

    A batch that the change log does not contain is ignored. If none is left, the whole change log is folded.
    """
    lake = table.format
    change_log, target = lake.state(table.changes), lake.state(table.stored(kind))
    if change_log is None or change_log.bookmark is None:
        return None
    own = BatchToken.at(table.name, target.bookmark if target else None, after=0)
    known = [t for t in (own, loaded) if t and t.batch and holds(table, change_log, t.batch, t.content_hash)]
    upto = max(known, key=lambda t: t.batch, default=BatchToken.at(table.name, change_log.bookmark, after=0))
    return TargetPlan(kind, upto, change_log)
