"""The end of every commit: its row in ``lake.ops.batches``, its line in the log, its part of the summary."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.commits.glue import tell_glue
from kedro_lakehouse.formats.base import enter_phase
from kedro_lakehouse.ops.store import BATCHES

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

    from kedro_lakehouse.names import Role, TableName
    from kedro_lakehouse.ops.report import CommitReport
    from kedro_lakehouse.project import Project

logger = logging.getLogger(__name__)

_STAGES: Final[Mapping[Role, str]] = {"changes": "ingestion", "current": "current", "history": "history"}
"""The lease under which a stored table is written."""


def acknowledge(project: Project, report: CommitReport, snapshot: int | None, *, seconds: float) -> None:
    """Write a published commit's row, and tell of it.

    Raises:
        AwsRefusedError: The environment's catalog refuses the table; the row is left to the next run.
    """
    tell_glue(project, report)
    project.ops.append(BATCHES, [report.row(snapshot)])
    enter_phase("acknowledged", report.table, report.stage, report.batch)
    project.reports.append(report)
    told = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in report.counts.items() if count)
    logger.info(
        "%s %s batch %s: %s (%.1f s)", report.table, report.stage, report.batch, told or "no change", seconds
    )


def write_owed_rows(project: Project, tables: Iterable[TableName]) -> int:
    """Write the rows of commits that a killed run published and did not acknowledge; how many.

    A run that is alive has the lease until its own row is there: what it is about to write is not owed.
    """
    held, written = _acknowledged(project.ops.read(BATCHES)), 0
    for name in tables:
        for role, stage in _STAGES.items():
            if _owed_row(project, name, role, held) is None:
                continue
            with project.lease(name, stage):
                now_held = _acknowledged(project.ops.read(BATCHES, of_table=str(name)))
                if owed := _owed_row(project, name, role, now_held):
                    report, snapshot = owed
                    tell_glue(project, report)
                    project.ops.append(BATCHES, [report.row(snapshot)])
                    written += 1
    return written


def _acknowledged(rows: Iterable[Mapping[str, Any]]) -> set[tuple[str, str, int]]:
    return {(r["table"], r["stage"], r["batch"]) for r in rows}


def _owed_row(
    project: Project, name: TableName, role: Role, held: Container[tuple[str, str, int]]
) -> tuple[CommitReport, int | None] | None:
    """The last commit of a stored table and its snapshot, where its row is not there."""
    state = project.format_of(name).state(name.with_suffix(role))
    report = state.bookmark if state else None
    if state is None or report is None or (report.table, report.stage, report.batch) in held:
        return None
    return report, state.snapshot_id
