"""The one way to change a stored table: plan, stage, audit, publish with the bookmark, acknowledge.

A change is planned on one published state of its table. If another writer commits meanwhile, nothing of the
change is published. It is planned again on the new state, until it is published or the deadline is over. The
lease only saves work: two runs that both believe they hold it still publish one after the other.

The runner makes a set of changes, of which each is published by itself; one change is the special case.
"""

from __future__ import annotations

import contextlib
import logging
from contextlib import ExitStack
from time import perf_counter
from typing import TYPE_CHECKING, Any, TypeVar

from kedro_lakehouse.commits.acknowledge import Commit, acknowledge
from kedro_lakehouse.errors import CommitConflictError, LeaseLostError, TransientError, UnknownOutcomeError
from kedro_lakehouse.formats.base import Layout, enter_phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import types as T

    from kedro_lakehouse.commits.token import BatchToken
    from kedro_lakehouse.formats.base import Stage, TableFormat, TableState
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.ops.lease import Lease
    from kedro_lakehouse.ops.report import CommitReport
    from kedro_lakehouse.sources.plans import PlannedFiles

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class Change:
    """One change of one stored table; each kind of change implements these methods.

    They are called again for every state in which the table is found.
    """

    def __init__(
        self,
        table: LakeTable,
        target: TableName,
        *,
        step: str,
        batch: int,
        inputs: Mapping[TableName, TableState | None] | None = None,
    ) -> None:
        """Take the declared table (``table``), and the stored table that is changed (``target``).

        Args:
            table: The declared table.
            target: The stored table that is changed.
            step: Names the change in ``lake.ops.batches`` and in the log of its phases.
            batch: The last batch that the target contains after the change.
            inputs: The other tables that the change reads, each with the state on which it was planned.
        """
        self.table, self.target, self.step, self.batch = table, target, step, batch
        self.format, self.inputs = table.format, inputs or {}
        self.begun: float | None = None
        """When its planning began, on the clock ``perf_counter``; None if its set of changes plans it."""

    def report_of(self, plan: BatchToken | PlannedFiles, *, batches: int = 1, **facts: Any) -> CommitReport:
        """The report of a commit of the last of ``batches`` planned batches, with further ``facts``."""
        given = {"content_hash": plan.content_hash, "follows": plan.follows, "epoch": plan.epoch} | facts
        return self.table.report(stage=self.step, batch=plan.batch, batches=batches, **given)

    def is_done(self, state: TableState | None) -> bool:
        """Whether nothing is left to do on this state.

        Raises:
            CommitConflictError: The plan does not follow this state.
        """
        raise NotImplementedError

    def columns(self, state: TableState | None) -> Mapping[str, T.DataType]:
        """The columns that the table must have; empty if the present ones are enough."""
        del state
        return {}

    @property
    def layout(self) -> Layout:
        """How the table is laid out on disk; used if this change creates it."""
        return Layout()

    def refuse_drift(self, state: TableState, columns: Mapping[str, T.DataType]) -> None:
        """Refuse a declaration that contradicts the rules that the table was made with."""

    def write(self, stage: Stage, state: TableState) -> CommitReport:
        """Stage the rows, compare them with the plan, and return the report of the commit."""
        raise NotImplementedError

    def audit(self, stage: Stage, state: TableState) -> None:
        """Check what is staged, or publish what must be visible before it; raise to stop the publication."""

    def publish(self, stage: Stage, report: CommitReport, state: TableState) -> int | None:
        """Make the staged change and the bookmark visible in one commit; return the new snapshot's id."""
        return stage.publish(report, properties=self.properties(state), without=self.dropped_columns(state))

    def properties(self, state: TableState) -> Mapping[str, str]:
        """The table properties that the commit sets beside the bookmark."""
        del state
        return {}

    def dropped_columns(self, state: TableState) -> Sequence[str]:
        """The columns that the commit drops from the table."""
        del state
        return ()


def run(table: LakeTable, plans: Mapping[str, Callable[[], Change | None]]) -> bool:
    """Make a set of changes under their leases; return whether there was anything to do.

    ``plans`` holds a function that plans a change for each step, in the order in which they are published.
    After a lost race all of them are called again, until a deadline; each returns None if nothing is to do.

    Raises:
        CommitConflictError: Other writers won every race until the deadline.
        LakehouseError: A change is refused; neither it nor a change after it was published.
    """

    def once(held: Lease) -> bool:
        return attempt((change for plan in plans.values() if (change := plan()) is not None), held)

    return planned_again(table, tuple(plans), once)


def planned_again(table: LakeTable, steps: Sequence[str], work: Callable[[Lease], _T]) -> _T:
    """Do work under leases of a table, again after every lost race until a deadline; return its result.

    Raises:
        CommitConflictError: Other writers won every race until the deadline.
    """
    patience = table.patience()
    while True:
        try:
            with leases(table, *steps) as held:
                return work(held)
        except (CommitConflictError, LeaseLostError) as error:
            logger.info("%s %s: another writer was faster, planning again", table, steps[0])
            patience.pause(error)


def attempt(changes: Iterable[Change], held: Lease) -> bool:
    """Make each change once, on the present state of its table; return whether there was anything to do.

    What was published is acknowledged together, also if a later change of the set fails.

    Raises:
        CommitConflictError: Another writer was faster; neither the change nor one after it was published.
        LeaseLostError: Another run may be working on the table by now; the same holds.
    """
    published, has_work = list[Commit](), False
    try:
        begun = perf_counter()
        for change in changes:
            state = change.format.state(change.target)
            if not change.is_done(state):
                has_work = True
                published += _commit(change, state, held, change.begun or begun)
            begun = perf_counter()
    finally:
        acknowledge(published)
    return has_work


def _commit(change: Change, state: TableState | None, held: Lease, begun: float) -> list[Commit]:
    """Stage, audit and publish a change; return what is to be acknowledged.

    The seconds of the commit count from ``begun``, when its planning began. A change that keeps the bookmark,
    such as a compaction, has no row of its own in ``lake.ops.batches``.
    """
    lake = change.format
    found = _ensured(change, state)
    held.check()
    planned_on = {change.target: found, **change.inputs}
    with lost_races(lake, planned_on), lake.stage(change.target, found) as stage:
        report = change.write(stage, found)
        enter_phase("staged", change.table, change.step, change.batch)
        held.check()
        change.audit(stage, found)
        snapshot = change.publish(stage, report, found)
    enter_phase("published", change.table, change.step, change.batch)
    done = Commit(table=change.table, report=report, snapshot=snapshot, seconds=perf_counter() - begun)
    return [done] if report != found.bookmark else []


def is_on_hold(state: TableState | None, what: str, table: LakeTable) -> bool:
    """Whether a table is on hold since a rollback, which is logged: ``what`` it is that stays as it is."""
    if state is None or not state.is_held:
        return False
    release = f"kedro lakehouse rollback {table} --release"
    logger.warning("%s: held since its rollback; `%s` lets it go on", what, release)
    return True


@contextlib.contextmanager
def lost_races(lake: TableFormat, planned_on: Mapping[TableName, TableState | None]) -> Iterator[None]:
    """Report an error in the block as a lost race if a table is no longer in the state that was planned on.

    A plan reads tables while other runs commit to them or drop them, so its reads need not fit together.

    Raises:
        CommitConflictError: One of the tables was changed; the original error is its cause.
    """
    try:
        yield
    except (TransientError, UnknownOutcomeError):
        raise
    except Exception as error:
        for table, state in planned_on.items():
            now = lake.state(table)
            if (now.version if now else None) != (state.version if state else None):
                raise CommitConflictError(table=table, attempts=1) from error
        raise


def _ensured(change: Change, state: TableState | None) -> TableState:
    """Create the table or add the needed columns; return its state, which must still be the planned one.

    Raises:
        CommitConflictError: The table has another bookmark by now.
    """
    lake, columns = change.format, change.columns(state)
    if state is not None and not columns:
        return state
    if state is None:
        lake.create(change.target, columns, change.layout)
    else:
        change.refuse_drift(state, columns)
        lake.evolve(change.target, columns, state)
    found = lake.state(change.target)
    if found is None or found.bookmark != (state.bookmark if state else None):
        raise CommitConflictError(table=change.target, attempts=1)
    return found


class _Leases:
    """Several leases as one."""

    def __init__(self, held: Sequence[Lease]) -> None:
        self._held = held

    def check(self) -> None:
        for one in self._held:
            one.check()

    def confirm(self) -> None:
        for one in self._held:
            one.confirm()


@contextlib.contextmanager
def leases(table: LakeTable, *steps: str) -> Iterator[Lease]:
    """Hold several leases of a table while the block runs; they are taken in the given order."""
    with ExitStack() as stack:
        yield _Leases([stack.enter_context(table.lease(step)) for step in steps])
