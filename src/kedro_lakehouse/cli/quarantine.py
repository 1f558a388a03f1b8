"""``kedro lakehouse quarantine``: events that could not be applied, and why."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from kedro_lakehouse.cli.completion import complete_tables
from kedro_lakehouse.cli.exclude import exclude_batch, list_decisions
from kedro_lakehouse.cli.options import limit_option, no_roles, open_project, project_options
from kedro_lakehouse.cli.show import print_result, print_rows
from kedro_lakehouse.monitoring.quarantined_events import quarantined_events

if TYPE_CHECKING:
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.operations.replay import Replayed
    from kedro_lakehouse.project import Project


@click.command()
@click.argument("table", required=False, shell_complete=complete_tables)
@click.option(
    "--batch", type=int, metavar="N", help="Only this batch; of a blocked TABLE: withdraw its failing events."
)
@click.option("--raw", is_flag=True, help="Print the raw records too; they may hold personal data.")
@click.option("--replay", is_flag=True, help="Apply the events of TABLE that the present rules accept.")
@click.option("--decisions", is_flag=True, help="List the events that were excluded.")
@limit_option(100)
@project_options
@no_roles("What could not be applied is shown as it arrived, to no role:")
def quarantine(  # noqa: PLR0913 - one argument an option
    *,
    table: str | None,
    batch: int | None,
    raw: bool,
    replay: bool,
    decisions: bool,
    limit: int,
    as_json: bool,
) -> None:
    """List events that could not be applied, bring them back, or withdraw events that block a table.

    Without TABLE: their number by table and first reason. With TABLE: batch, file, row and reasons.
    An event's first reason is the one that decides; the others hold as well.

    With --replay, after checks, types, csv options, rename or another mapping were corrected: the
    quarantined records are read again from their landed files; those that are valid now are applied, at
    their own place in the order, and leave the quarantine; the others stay. This starts Spark.

    With TABLE and --batch, where the batch was refused by an expectation that blocks
    (EXPECTATION_FAILED): its failing events are excluded by a recorded decision, and the next run
    publishes the rest. They take part in nothing from then on, rebuilds included. This starts Spark.
    --decisions lists them.

    \b
    Examples:
      kedro lakehouse quarantine
      kedro lakehouse quarantine sp500.constituents --batch 1 --raw
      kedro lakehouse quarantine sp500.constituents --replay
      kedro lakehouse quarantine dms_sample.person --batch 2
    """  # noqa: D301 - \b keeps click from wrapping the examples
    from kedro_lakehouse.names import TableName

    if (raw or replay) and table is None:
        raise click.UsageError(f"{'--raw' if raw else '--replay'} needs a TABLE.")
    if replay and (raw or batch is not None):
        raise click.UsageError("--replay takes neither --raw nor --batch.")
    if decisions and (raw or replay or batch is not None):
        raise click.UsageError("--decisions takes no other option but --limit and --json.")
    project = open_project()
    name = TableName.parse(table) if table is not None else None
    if decisions:
        list_decisions(project, name, limit=limit, as_json=as_json)
        return
    if name is not None:
        project.table(name)  # refuses a table that is not declared
        if batch is not None and not raw and _is_blocked(project, name):
            exclude_batch(project, name, batch, as_json=as_json)
            return
        if replay:
            _replay(project, name, as_json=as_json)
            return
        nothing, right = "No such event is quarantined.", ("batch", "row")
        found = quarantined_events(project, name, batch, raw=raw)
        if batch is not None and not found:
            _require_batch(project, name, batch)
        print_rows(found, as_json=as_json, nothing=nothing, limit=limit, cells=_cells, right=right)
        return
    counted = [row for name in sorted(project.declarations.tables) for row in _counts(project, name, batch)]
    nothing = "No event is quarantined."
    print_rows(counted, as_json=as_json, nothing=nothing, cells=_headed, right=("events",))


def _headed(row: dict[str, Any]) -> dict[str, object]:
    return {name.replace("_", " "): value for name, value in row.items()}


def _require_batch(project: Project, name: TableName, batch: int) -> None:
    """Refuse the number of a batch that the table does not have; without a JVM."""
    from kedro_lakehouse.errors import BatchNotFoundError
    from kedro_lakehouse.ops.store import BATCH_LEDGER

    known = [r["batch"] for r in project.ops.read(BATCH_LEDGER, of_table=str(name)) if r["batch"]]
    last = max(known, default=0)
    if not 1 <= batch <= last:
        raise BatchNotFoundError(table=name, batch=batch, last=last)


def _is_blocked(project: Project, name: TableName) -> bool:
    """Whether an expectation refused a batch that is not published since; without a JVM."""
    table = project.bind(name)
    if not any(e.severity == "block" for e in table.config.expectations):
        return False
    from kedro_lakehouse.operations.exclude import blocked_batches

    return bool(blocked_batches(table))


def _counts(project: Project, name: TableName, batch: int | None) -> list[dict[str, Any]]:
    reasons = Counter((event["reasons"] or [""])[0] for event in quarantined_events(project, name, batch))
    return [
        {"table": str(name), "first_reason": reason, "events": count}
        for reason, count in reasons.most_common()
    ]


def _cells(event: dict[str, Any]) -> dict[str, object]:
    return event | {"reasons": ", ".join(event["reasons"] or ()), "columns": ", ".join(event["columns"])}


def _replayed(name: str, done: Replayed) -> str:
    """What a replay did, as one line."""
    from kedro_lakehouse.errors import counted

    left = f"{done.left:,} {'is' if done.left == 1 else 'are'} left."
    if not done.replayed:
        return f"{name}: no quarantined record is valid now; {left}"
    valid = (
        f"{counted(done.replayed, 'quarantined record')} {'is' if done.replayed == 1 else 'are'} valid now"
    )
    applied = f"{counted(done.applied, 'event')} applied, {done.duplicates:,} there already"
    return f"{name}, batch {done.batch}: {valid} ({applied}); {left}"


def _replay(project: Project, name: TableName, *, as_json: bool) -> None:
    """Replay a table's quarantine, and end with status 1 where files were not there to be read."""
    from dataclasses import asdict

    from kedro_lakehouse.cli.rebuild import recorded
    from kedro_lakehouse.errors import listed
    from kedro_lakehouse.operations.replay import Replay

    done = recorded(project, f"quarantine --replay {name}", Replay(project.bind(name)).run)
    print_result(asdict(done), _replayed(str(name), done), as_json=as_json)
    if done.missing:
        raise click.ClickException(
            f"Not read again, for they are gone or were replaced: {listed(done.missing)}. "
            "Their records stay in quarantine. Put the files back as they were, or deliver the records anew."
        )
