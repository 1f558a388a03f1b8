"""The rows of ``lake.ops.runs``: runs that changed a table, and runs that failed."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from kedro_lakehouse.ops.failures import TablesFailedError, message_of
from kedro_lakehouse.ops.store import RUNS

if TYPE_CHECKING:
    from collections.abc import Collection

    from kedro_lakehouse.project import Project


def record_run(
    project: Project,
    run_params: dict[str, Any],
    started: datetime,
    error: Exception | None,
    *,
    changed: Collection[str] = (),
) -> None:
    """Write the run's row of ``lake.ops.runs``; a run that changed nothing and did not fail leaves none.

    ``changed`` names tables that it changed without a commit's report.
    """
    if error is None and not project.reports and not changed:
        return
    row = {
        "run_id": project.run_id,
        "correlation_id": project.correlation_id,
        "pipeline": pipeline_of(run_params),
        "env": project.env,
        "status": "failed" if error else "succeeded",
        "started_at": started,
        "ended_at": datetime.now(UTC),
        "tables": sorted({report.table for report in project.reports} | set(changed)),
        "failed": [
            {"table": table, "code": getattr(e, "code", type(e).__name__), "message": message_of(e)}
            for table, e in failures(error).items()
        ],
    }
    project.ops.append(RUNS, [row])


def pipeline_of(run_params: dict[str, Any]) -> str:
    """The names of the pipelines that a run executes."""
    return ",".join(run_params.get("pipeline_names") or [run_params.get("pipeline_name") or "__default__"])


def failures(error: BaseException | None) -> dict[str, BaseException]:
    """Each failed table's error; an error of the run itself under an empty name."""
    if error is None:
        return {}
    return dict(error.tables) if isinstance(error, TablesFailedError) else {"": error}
