"""``kedro lakehouse runs``: the runs that changed a table or failed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kedro_lakehouse.cli.options import env_option, json_option, limit_option, open_project
from kedro_lakehouse.cli.show import print_json, print_table, say_cut

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import timedelta


@click.command()
@limit_option(20)
@env_option
@json_option
def runs(*, limit: int, as_json: bool) -> None:
    """List the last runs, newest first.

    Shows what each one changed, and what failed. A run that found nothing new and did not fail
    leaves no record. Times are UTC.
    """
    from kedro_lakehouse.ops.store import RUNS

    rows = sorted(open_project().ops.read(RUNS), key=lambda run: run["started_at"], reverse=True)
    shown = rows[: limit or None]
    if as_json:
        print_json([run | {"seconds": _seconds(run)} for run in shown])
    elif shown:
        headings = ("run", "pipeline", "env", "status", "started", "duration", "tables changed", "failed")
        print_table(
            headings, [_cells(run) for run in shown], right=("duration", "tables changed"), whole=("run",)
        )
    else:
        click.echo("No run changed a table or failed yet: `kedro run` makes the first.")
    if len(rows) > len(shown):
        say_cut(len(shown))


def _seconds(run: Mapping[str, Any]) -> float:
    lasted: timedelta = run["ended_at"] - run["started_at"]
    return round(lasted.total_seconds(), 3)


def _cells(run: Mapping[str, Any]) -> list[object]:
    from kedro_lakehouse.errors import listed

    failed = [f"{f['table'] or 'the run'} ({f['code']})" for f in run["failed"] or ()]
    return [
        run["run_id"],
        run["pipeline"],
        run["env"],
        run["status"],
        run["started_at"].replace(microsecond=0),
        f"{_seconds(run):.0f} s",
        len(run["tables"] or ()),
        listed(failed) if failed else "",
    ]
