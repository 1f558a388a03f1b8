"""``kedro lakehouse rollback``: go back to an earlier state of a table, or let a held one go on."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import click

from kedro_lakehouse.cli.completion import complete_tables
from kedro_lakehouse.cli.options import moment, open_project, project_options
from kedro_lakehouse.cli.rebuild import confirm, recorded
from kedro_lakehouse.cli.show import print_result

if TYPE_CHECKING:
    from datetime import datetime


@click.command()
@click.argument("table", shell_complete=complete_tables)
@click.option("--to-batch", type=click.IntRange(min=1), metavar="N", help="The state after this batch.")
@click.option("--to-snapshot", type=int, metavar="ID", help="This snapshot of current or history; only it.")
@click.option("--as-of", callback=moment, metavar="TIME", help="What readers saw at this time (UTC).")
@click.option("--hold", is_flag=True, help="Let no run change the table until it is released.")
@click.option("--release", is_flag=True, help="Let runs bring a held table up to date again.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@project_options
def rollback(  # noqa: PLR0913 - a command's options
    *,
    table: str,
    to_batch: int | None,
    to_snapshot: int | None,
    as_of: datetime | None,
    hold: bool,
    release: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Go back to an earlier state of a table: its rows, and its bookmark with them. Starts Spark.

    Current and history go back; the change log stays. So the next `kedro run` applies again what
    came after, and ends in the table that it would have had: this mends a table that was changed by hand
    or by a fault. To keep an earlier state until a bad batch is excluded or corrected, add --hold.

    \b
    Examples:
      kedro lakehouse snapshots dms_sample.person
      kedro lakehouse rollback dms_sample.person --to-batch 3
      kedro lakehouse rollback dms_sample.person --as-of "2026-12-01 06:00" --hold
      kedro lakehouse rollback dms_sample.person --release
    """  # noqa: D301 - \b keeps click from wrapping the examples
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.operations import rollback as going_back

    given = [value for value in (to_batch, to_snapshot, as_of, release or None) if value is not None]
    if len(given) != 1:
        raise click.UsageError("Give one of --to-batch, --to-snapshot, --as-of and --release.")
    if release and hold:
        raise click.UsageError("--hold and --release contradict each other.")
    name = TableName.parse(table)
    project = open_project()
    bound = project.bind(name)  # refuses a table that is not declared
    if release:
        freed = recorded(project, f"rollback {name}", lambda: going_back.release(bound), changed=[str(name)])
        message = f"{', '.join(freed)}: the next `kedro run` goes on." if freed else f"{name} is not held."
        print_result({"table": str(name), "released": freed}, message, as_json=as_json)
        return
    goal = going_back.Goal(batch=to_batch, snapshot=to_snapshot, time=as_of)
    confirm(f"Let readers of {name} see its state of {goal.words}?", yes=yes)
    go_back = partial(going_back.roll_back, bound, goal, hold=hold)
    done = recorded(project, f"rollback {name}", go_back, changed=[str(name)])
    then = (
        f"Held: `kedro lakehouse rollback {name} --release` lets runs go on."
        if hold
        else "The next `kedro run` applies again what came after."
    )
    facts = {"table": str(name), "held": hold, "stored": [asdict(one) for one in done], "next": then}
    lines = [
        f"{one.table}: back from batch {one.from_batch} to {one.batch}, {one.rows:,} rows." for one in done
    ]
    print_result(facts, "\n".join([*lines, then]), as_json=as_json)
