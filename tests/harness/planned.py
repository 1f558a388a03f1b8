"""What a plan foresees, and what the run then did, in the same words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kedro_lakehouse.ops.store import BATCH_LEDGER
from kedro_lakehouse.preview.plan import plan_run
from kedro_lakehouse.project import Project

if TYPE_CHECKING:
    from harness.project import TemporaryProject

Batches = dict[tuple[str, int], list[str]]


def foreseen(project: TemporaryProject) -> Batches:
    """The names of the files of each batch that the next run is to commit, by table and number."""
    plan = plan_run(Project.load(str(project.path / "conf"), None))
    return {
        (one.table, batch.number): [file.name for file in batch.files]
        for one in plan.tables
        for batch in one.upcoming.batches
    }


def committed(project: TemporaryProject, reports: list[Any]) -> Batches:
    """The same of the batches that a run has committed; those of a derived table have no files."""
    done = {(report.table, report.batch) for report in reports if report.stage == "ingestion"}
    return {
        (row["table"], row["batch"]): [
            name
            for file in row["files"]
            if not (name := file["path"].rpartition("/")[2]).startswith("derived:")
        ]
        for row in project.ops(BATCH_LEDGER)
        if (row["table"], row["batch"]) in done
    }
