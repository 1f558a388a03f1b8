"""Faults that the protocol had, or could have, put back one at a time: the simulator must find each."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from kedro_lakehouse.commits import ingest, runner
from kedro_lakehouse.ops.patience import Patience
from kedro_lakehouse.sources import ledger
from kedro_lakehouse.testing.memory import MemoryStage
from simulator.world import SimulatedLease

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Patch = pytest.MonkeyPatch


def newest_plan_counts(patch: Patch) -> None:
    """Of two plans of one number the one that was written last counts, whatever was published."""
    chain = ledger._chain

    def by_time(rows: Any, bookmark: Any, epoch: int) -> Any:
        found = chain(rows, bookmark, epoch)
        if found is None:
            return None
        newest = {r["batch"]: ledger._planned(r) for r in ledger._by_time(rows) if r["batch"]}
        published = tuple(newest.get(p.batch, p) for p in found.published)
        return replace(found, published=published, open=found.open, void=frozenset())

    patch.setattr(ledger, "_chain", by_time)


def bookmark_is_compared_once(patch: Patch) -> None:
    """What is published between the first look at a table and the second is not seen."""

    def ensured(change: Any, state: Any) -> Any:
        if state is None:
            change.format.create(change.target, change.columns(state), change.layout)
        return change.format.state(change.target)

    patch.setattr(runner, "_ensured", ensured)


def clocks_order_the_ledger(patch: Patch) -> None:
    """What was planned before the last rebuild, by the planners' clocks, does not count."""
    chain = ledger._chain

    def by_clock(rows: Any, bookmark: Any, epoch: int) -> Any:
        return chain(ledger._since_the_last_rebuild(rows), bookmark, epoch)

    patch.setattr(ledger, "_chain", by_clock)


def stage_is_cut_late(patch: Patch) -> None:
    """A stage belongs to the state that its table has at the first write, not to the planned one."""
    begin = MemoryStage._begin

    def begin_late(stage: MemoryStage) -> Any:
        if stage._files is None:
            stage._base = stage._lake.find(stage.table)
            stage._planned_on = f"{stage._base.uuid}/{stage._base.version}"
        return begin(stage)

    patch.setattr(MemoryStage, "_begin", begin_late)


def lost_lease_goes_unnoticed(patch: Patch) -> None:
    """A run goes on under a lease that it knows to be lost."""
    patch.setattr(SimulatedLease, "check", lambda _: None)


def nothing_is_planned_again(patch: Patch) -> None:
    """The first lost race ends a run."""

    def give_up(_: Patience, error: Exception) -> None:
        raise error

    patch.setattr(Patience, "pause", give_up)


def quarantine_of_void_plans_stays(patch: Patch) -> None:
    """What a run quarantined of a batch that another plan won is never removed."""
    patch.setattr(ingest, "_void_from", lambda *_: 0)


def another_log_counts_as_the_same(patch: Patch) -> None:
    """Pending events of a change log that was made anew since count as the new one's."""
    patch.setattr("kedro_lakehouse.commits.target.holds", lambda *_: True)


def published_in_two_steps(patch: Patch) -> None:
    """The rows of a commit come in two steps: a reader between them sees half of a batch."""
    commit = MemoryStage._commit

    def in_two(stage: MemoryStage, found: Any, changed: Any) -> bool:
        *files, last = changed.files or [()]
        half = replace(changed, files=(*files, last[1:]))
        return commit(stage, found, half) and stage._lake.swap(stage.table, half, changed)

    patch.setattr(MemoryStage, "_commit", in_two)


FAULTS: dict[str, Callable[[Patch], None]] = {
    f.__name__: f
    for f in (
        newest_plan_counts, bookmark_is_compared_once, clocks_order_the_ledger, stage_is_cut_late,
        lost_lease_goes_unnoticed, nothing_is_planned_again, quarantine_of_void_plans_stays,
        another_log_counts_as_the_same, published_in_two_steps,
    )
}  # fmt: skip


@contextlib.contextmanager
def planted(name: str) -> Iterator[None]:
    """Have one fault while the block runs."""
    with pytest.MonkeyPatch.context() as patch:
        FAULTS[name](patch)
        yield
