"""``kedro lakehouse runs``: the runs that changed a table or failed, and what one of them did."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from kedro_lakehouse.cli.options import limit_option, no_roles, open_project, project_options
from kedro_lakehouse.cli.show import print_json, print_rows, printable

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.project import Project


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@limit_option(20)
@project_options
@no_roles("What runs did is shown to no role:")
def runs(*, run_id: str | None, limit: int, as_json: bool) -> None:
    """List the last runs, newest first; or show what one run did.

    Shows what each one changed, and what failed. A run that found nothing new and did not fail
    is not listed. "no record": a run that was killed after it had published, or is still at work; its
    times are those of its first and its last commit. With RUN (the beginning of its name is enough) it
    shows the commits of that run, why tables failed, and the state of each of its tables now. Times are
    UTC.
    """
    from kedro_lakehouse.monitoring.runs import known_runs

    project = open_project()
    timed = [
        run | {"seconds": round((run["ended_at"] - run["started_at"]).total_seconds(), 3)}
        for run in known_runs(project.ops)
    ]
    if run_id is not None:
        _show_one(project, chosen_run(timed, run_id), as_json=as_json)
        return
    nothing = "No run changed a table or failed yet: `kedro run` makes the first."
    print_rows(
        timed,
        as_json=as_json,
        nothing=nothing,
        limit=limit,
        cells=_cells,
        narrow=_narrow,
        right=("duration", "tables changed", "changed", "failures"),
        whole=("run",),
    )


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


def _narrow(run: dict[str, Any]) -> dict[str, object]:
    """The cells that fit 80 columns: a run's name begins with the time at which it began."""
    whole = _cells(run)
    kept = {name: whole[name] for name in ("run", "pipeline", "status", "duration")}
    failed = len(run["failed"] or ())
    return kept | {"changed": whole["tables changed"], "failures": failed or ""}


def chosen_run(rows: Sequence[dict[str, Any]], run_id: str) -> dict[str, Any]:
    """The run of this name, or the one whose name begins so.

    Raises:
        RunNotFoundError: There is none, or there are several.
    """
    from kedro_lakehouse.errors import RunNotFoundError

    found = [run for run in rows if run["run_id"].startswith(run_id)]
    if len(found) != 1:
        known = [run["run_id"] for run in found or rows]
        raise RunNotFoundError(wanted=run_id, known=known)
    return found[0]


def _show_one(project: Project, run: dict[str, Any], *, as_json: bool) -> None:
    from kedro_lakehouse.monitoring.runs import NO_RECORD
    from kedro_lakehouse.monitoring.table_status import LakeFacts, status_of
    from kedro_lakehouse.ops.store import BATCHES

    failed = {f["table"]: f for f in run["failed"] or () if f["table"]}
    named = {*(run["tables"] or ()), *(run.get("recovered") or ()), *failed}
    facts = LakeFacts(project)
    tables = [name for name in sorted(project.declarations.tables) if str(name) in named]
    with project.catalog.listed():
        states = [status_of(project.bind(name), facts) for name in tables]
    commits = project.ops.read_of_run(BATCHES, run["run_id"])
    commits.sort(key=lambda row: (row["table"], row["committed_at"]))
    if as_json:
        shown = [asdict(one) | {"words": one.words} for one in states]
        print_json(run | {"commits": commits, "states": shown})
        return
    began = f"{run['started_at']:%Y-%m-%d %H:%M:%S}"
    if run["status"] == NO_RECORD:
        line = f"no record of its end: it was killed, or is still at work. Its first commit was at {began}"
    else:
        ended = f"{run['status']} after {run['seconds']:.0f} s"
        line = f"{run['pipeline']}, environment {run['env']}, {began}, {ended}"
    click.echo(f"Run {run['run_id']}: {line}.")
    for failure in run["failed"] or ():
        click.echo(printable(f"{failure['table'] or 'the run'} failed: {failure['message']}"))
    for table in run.get("recovered") or ():
        click.echo(f"{table} recovered.")
    right = ("batch", "events", "quarantined")
    print_rows(commits, as_json=False, nothing="It committed nothing.", cells=_commit, right=right)
    for one in states:
        click.echo(f"Now: {one.table} is {one.words}." + (f" {printable(one.reason)}" if one.reason else ""))


def _commit(row: dict[str, Any]) -> dict[str, object]:
    counts = {
        name: row.get(name) for name in ("inserted", "updated", "deleted", "opened", "closed", "removed")
    }
    return {
        "table": row["table"],
        "stage": row["stage"],
        "batch": row["batch"],
        "events": row.get("events_in"),
        "quarantined": row.get("quarantined"),
        "rows": ", ".join(f"{count:,} {name}" for name, count in counts.items() if count),
    }
