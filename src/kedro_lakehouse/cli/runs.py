"""``kedro lakehouse runs``: the runs that changed a table or failed."""

from __future__ import annotations

from typing import Any

import click

from kedro_lakehouse.cli.options import limit_option, open_project, project_options
from kedro_lakehouse.cli.show import print_rows


@click.command()
@limit_option(20)
@project_options
def runs(*, limit: int, as_json: bool) -> None:
    """List the last runs, newest first.

    Shows what each one changed, and what failed. A run that found nothing new and did not fail
    leaves no record. Times are UTC.
    """
    from kedro_lakehouse.ops.store import RUNS

    rows = sorted(open_project().ops.read(RUNS), key=lambda run: run["started_at"], reverse=True)
    timed = [
        run | {"seconds": round((run["ended_at"] - run["started_at"]).total_seconds(), 3)} for run in rows
    ]
    nothing = "No run changed a table or failed yet: `kedro run` makes the first."
    right, whole = ("duration", "tables changed"), ("run",)
    print_rows(timed, as_json=as_json, nothing=nothing, limit=limit, cells=_cells, right=right, whole=whole)


def _cells(run: dict[str, Any]) -> dict[str, object]:
    from kedro_lakehouse.errors import listed

    failed = [f"{f['table'] or 'the run'} ({f['code']})" for f in run["failed"] or ()]
    return {
        "run": run["run_id"],
        "pipeline": run["pipeline"],
        "env": run["env"],
        "status": run["status"],
        "started": run["started_at"].replace(microsecond=0),
        "duration": f"{run['seconds']:.0f} s",
        "tables changed": len(run["tables"] or ()),
        "failed": listed(failed) if failed else "",
    }
