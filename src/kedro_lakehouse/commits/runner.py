"""The one way to change a stored table: plan, stage, audit, publish with the bookmark, acknowledge.

A change is planned on one published state of its table. If another writer commits meanwhile, nothing of the
change is published and it is planned again on the new state, until it is in or the deadline is over. The
lease only saves work: two runs that both believe to hold it still publish one after the other.
"""

from __future__ import annotations

import contextlib
import logging
from contextlib import ExitStack
from time import perf_counter
from typing import TYPE_CHECKING, TypeVar

from kedro_lakehouse.commits.acknowledge import acknowledge
from kedro_lakehouse.errors import (
    CommitConflictError,
    LeaseLostError,
    TransientError,
    UnknownOutcomeError,
)
from kedro_lakehouse.formats.base import Layout, enter_phase

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from pyspark.sql import types as T

    from kedro_lakehouse.formats.base import Stage, TableFormat, TableState
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.ops.lease import Lease
    from kedro_lakehouse.ops.report import CommitReport

logger = logging.getLogger(__name__)

_T = TypeVar("_T")


class Change:
    """One change of one stored table. A kind of change says what it is by these methods.

    Each is asked anew on every state in which the table is found.
    """

    def __init__(self, table: LakeTable, target: TableName, *, step: str) -> None:
        """Keep the declared table that the change belongs to, and the stored one that it changes.

        ``step`` names the change in ``lake.ops.batches`` and to whoever follows its phases.
        """
        self.table, self.target, self.step = table, target, step

    @property
    def format(self) -> TableFormat:
        """The format of the declared table."""
        return self.table.format

    @property
    def batch(self) -> int:
        """The batch that the table holds afterwards."""
        raise NotImplementedError

    @property
    def inputs(self) -> Mapping[TableName, TableState | None]:
        """The other tables that the change reads, in the state in which it was planned."""
        return {}

    def is_done(self, state: TableState | None) -> bool:
        """Whether nothing is to be done on this state.

        Raises:
            CommitConflictError: What was planned does not follow this state.
        """
        raise NotImplementedError

    def columns(self, state: TableState | None) -> Mapping[str, T.DataType]:
        """The columns that the table must have; empty where it keeps those that it has."""
        del state
        return {}

    @property
    def layout(self) -> Layout:
        """How the table lies on disk, where this change makes it."""
        return Layout()

    def refuse_drift(self, state: TableState, columns: Mapping[str, T.DataType]) -> None:
        """Refuse a declaration under which the table would mean something else."""

    def write(self, stage: Stage, state: TableState) -> CommitReport:
        """Stage the rows, compare them with the plan, and tell what the commit does."""
        raise NotImplementedError

    def audit(self, stage: Stage, state: TableState) -> None:
        """Look at what is staged, or publish what must be seen first; raise where it may not be published."""

    def publish(self, stage: Stage, report: CommitReport, state: TableState) -> int | None:
        """Make what is staged visible, with the bookmark, in one commit; the new snapshot's id."""
        return stage.publish(report, properties=self.properties(state), without=self.dropped_columns(state))

    def properties(self, state: TableState) -> Mapping[str, str]:
        """The table properties that the commit sets beside the bookmark."""
        del state
        return {}

    def dropped_columns(self, state: TableState) -> Sequence[str]:
        """The columns that leave the table with the commit."""
        del state
        return ()


def run(table: LakeTable, step: str, plan: Callable[[], Change | None]) -> bool:
    """Make a change under its lease; whether there was anything to do.

    After every lost race ``plan`` is asked again, until a deadline; None from it says that nothing is to do.

    Raises:
        CommitConflictError: Other writers won every race until the deadline; nothing was published.
        LakehouseError: The change is refused; nothing was published.
    """

    def once(held: Lease) -> bool:
        change = plan()
        return change is not None and attempt(change, held)

    return planned_again(table, (step,), once)


def planned_again(table: LakeTable, steps: Sequence[str], work: Callable[[Lease], _T]) -> _T:
    """Do work under leases of a table, again after every lost race until a deadline; what it returns.

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


def attempt(change: Change, held: Lease) -> bool:
    """Make a change once, on the state that the table is in now; whether there was anything to do.

    Raises:
        CommitConflictError: Another writer was faster; nothing was published.
        LeaseLostError: Another run may work on the table by now; nothing was published.
    """
    begun, lake = perf_counter(), change.format
    state = lake.state(change.target)
    if change.is_done(state):
        return False
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
    if report != found.bookmark:
        acknowledge(change.table, report, snapshot, seconds=perf_counter() - begun)
    return True


@contextlib.contextmanager
def lost_races(lake: TableFormat, planned_on: Mapping[TableName, TableState | None]) -> Iterator[None]:
    """Take an error for a lost race where one of the tables is not in its planned state any more.

    A plan reads tables while others commit to them, or drop them: what it finds then need not fit together.

    Raises:
        CommitConflictError: One of the tables was changed; the error is its cause.
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
    """The table with the columns that the change needs, in the state that the change was planned on.

    Raises:
        CommitConflictError: It is in another one by now.
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
    """Hold several leases of a table while the block runs, taken in this order."""
    with ExitStack() as stack:
        yield _Leases([stack.enter_context(table.lease(step)) for step in steps])
