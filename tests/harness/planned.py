"""What a plan foresees, and what the run then did, in the same words."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from kedro_lakehouse.ops.store import BATCH_LEDGER, BATCHES
from kedro_lakehouse.preview.plan import plan_run
from kedro_lakehouse.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.project import TemporaryProject
    from kedro_lakehouse.preview.plan import RunPlan

Batches = dict[tuple[str, int], list[str]]


@contextmanager
def as_planned(project: TemporaryProject, *, namespaces: Sequence[str] = ()) -> Iterator[RunPlan]:
    """What runs in the block commits the batches that are planned before it, of the planned files, and no
    others: the block gets the plan.
    """
    plan, before = _plan(project, namespaces), _recorded(project)
    yield plan
    done, planned = _of(project, _recorded(project) - before), _batches(plan)
    assert done == planned, (done, planned)


def foreseen(project: TemporaryProject) -> Batches:
    """The names of the files of each batch that the next run is to commit, by table and number."""
    return _batches(_plan(project))


def _plan(project: TemporaryProject, namespaces: Sequence[str] = ()) -> RunPlan:
    return plan_run(Project.load(str(project.path / "conf"), None), namespaces)


def _batches(plan: RunPlan) -> Batches:
    return {
        (one.table, batch.number): [file.name for file in batch.files]
        for one in plan.tables
        for batch in one.upcoming.batches
    }


def _recorded(project: TemporaryProject) -> set[tuple[str, int]]:
    """The batches whose commits runs have recorded."""
    rows = project.ops(BATCHES)
    return {(row["table"], row["batch"]) for row in rows if row["stage"] == "ingestion"}


def committed(project: TemporaryProject, reports: list[Any]) -> Batches:
    """The same of the batches that a run has committed; those of a derived table have no files."""
    return _of(project, {(r.table, r.batch) for r in reports if r.stage == "ingestion"})


def _of(project: TemporaryProject, done: set[tuple[str, int]]) -> Batches:
    return {
        (row["table"], row["batch"]): [
            name
            for file in row["files"]
            if not (name := file["path"].rpartition("/")[2]).startswith("derived:")
        ]
        for row in project.ops(BATCH_LEDGER)
        if (row["table"], row["batch"]) in done
    }
