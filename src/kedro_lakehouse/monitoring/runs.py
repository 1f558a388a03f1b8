"""The rows of ``lake.ops.runs``: runs that changed a table, and runs that failed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.errors import RefusedExtractsError
from kedro_lakehouse.ops.failures import TablesFailedError, message_of
from kedro_lakehouse.ops.store import BATCHES, RUNS

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from kedro_lakehouse.ops.store import OpsStore
    from kedro_lakehouse.project import Project

NO_RECORD: Final = "no record"
"""Status of a run that was killed before it could write its row, or is still at work."""


def record_run(  # noqa: PLR0913 - the facts of a run
    project: Project,
    run_params: dict[str, Any],
    started: datetime,
    error: Exception | None,
    *,
    changed: Collection[str] = (),
    whole: Collection[str] = (),
) -> None:
    """Write the run's row of ``lake.ops.runs``.

    A run that changed nothing, did not fail, and in which no table recovered leaves none.

    Args:
        project: The project after the run.
        run_params: Kedro's facts about the run.
        started: When it began.
        error: What it ended with.
        changed: The tables that it changed without a commit's report.
        whole: The tables of which every node ran to its end.
    """
    recovered = sorted(set(whole) & set(failing_tables(project))) if whole else []
    if error is None and not project.reports and not changed and not recovered:
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
        "recovered": recovered,
    }
    project.ops.append(RUNS, [row])


def known_runs(ops: OpsStore) -> list[dict[str, Any]]:
    """The recorded runs, and those of which only commits tell: killed, or still at work; the newest first."""
    recorded = ops.read(RUNS)
    names = {run["run_id"] for run in recorded}
    commits: dict[str, list[dict[str, Any]]] = {}
    for row in ops.read(BATCHES):
        if row["run_id"] and row["run_id"] not in names:
            commits.setdefault(row["run_id"], []).append(row)
    unrecorded = [_without_record(run_id, rows) for run_id, rows in commits.items()]
    return sorted([*recorded, *unrecorded], key=lambda run: run["started_at"], reverse=True)


def _without_record(run_id: str, commits: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """What the commits of a run tell of it, as a row of ``lake.ops.runs``."""
    times = [row["committed_at"] for row in commits]
    return {
        "run_id": run_id,
        "correlation_id": commits[0].get("correlation_id"),
        "pipeline": None,
        "env": None,
        "status": NO_RECORD,
        "started_at": min(times),
        "ended_at": max(times),
        "tables": sorted({row["table"] for row in commits}),
        "failed": [],
        "recovered": [],
    }


@dataclass(frozen=True)
class TableFailure:
    """Since when a table fails, and what its last failure was."""

    since: datetime
    code: str
    message: str


def failing_tables(project: Project) -> dict[str, TableFailure]:
    """The tables that failed in an earlier run of this environment and have not recovered since.

    A table with refused extracts is not among them: it is not wrong, and its other extracts were applied.
    """
    found: dict[str, TableFailure] = {}
    runs = (run for run in project.ops.read(RUNS) if run["env"] == project.env)
    for run in sorted(runs, key=lambda run: run["ended_at"]):
        failed = {f["table"]: f for f in run["failed"] or () if f["code"] != RefusedExtractsError.code}
        recovered = run.get("recovered")
        # Rows of earlier versions do not say what recovered: there it is what changed and did not fail.
        well = recovered if recovered is not None else run["tables"] or ()
        for table in well:
            if table not in failed:
                found.pop(table, None)
        for table, failure in failed.items():
            since = found[table].since if table in found else run["started_at"]
            found[table] = TableFailure(since, failure["code"], failure["message"])
    return found


def pipeline_of(run_params: dict[str, Any]) -> str:
    """The names of the pipelines that a run executes."""
    return ",".join(run_params.get("pipeline_names") or [run_params.get("pipeline_name") or "__default__"])


def failures(error: BaseException | None) -> dict[str, BaseException]:
    """Each failed table's error; an error of the run itself under an empty name."""
    if error is None:
        return {}
    return dict(error.tables) if isinstance(error, TablesFailedError) else {"": error}
