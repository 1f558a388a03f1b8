"""``kedro lakehouse tables``: where every declared table stands."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from kedro_lakehouse.cli.options import no_roles, open_project, project_options
from kedro_lakehouse.cli.show import print_rows, printable
from kedro_lakehouse.errors import counted

if TYPE_CHECKING:
    from kedro_lakehouse.project import Project


@click.command()
@click.option("--waiting", is_flag=True, help="Also ask each source what is in no batch yet.")
@project_options
@no_roles("The state of all tables is shown to no role:")
def tables(*, waiting: bool, as_json: bool) -> None:
    """List the tables, and the state of each.

    "empty": nothing was ingested yet. "running": a run works on it now. "failing": it failed, and no
    run of all its steps has ended well since. "refused": its newest extract was refused. "held": a
    rollback keeps its state. "waiting": current or history lack batches of the change log; the next
    `kedro run` brings them. "stale": its last commit is older than monitoring.yml allows. "fresh":
    none of these. With --waiting the column "waits" has the files, or records of a topic, that are in no
    batch yet. Of a table whose source is asked for its records, "last pull" has the last pull's number,
    its rows, and the end of its window. Times are UTC. A narrow terminal shows less of each table, and all
    of it with --json.
    """
    from kedro_lakehouse.monitoring.table_status import statuses_of

    project = open_project()
    found = [asdict(one) | {"words": one.words} for one in statuses_of(project)]
    if waiting:
        found = [one | {"waiting": _waiting(project, one["table"])} for one in found]
    nothing = "No table is declared: add one to conf/base/tables.yml."
    if any(pulled := [_last_pull(project, one["table"]) for one in found]):
        found = [one | {"pull": last or None} for one, last in zip(found, pulled, strict=True)]
    right = ("waits", "rows", "history rows", "lag", "quarantined", "history", "bad")
    print_rows(
        found, as_json=as_json, nothing=nothing, cells=_cells, narrow=_narrow, right=right, whole=("table",)
    )
    if not as_json:
        show_reasons(found)


def show_reasons(statuses: list[dict[str, Any]]) -> None:
    """Print why tables fail or are refused, one line each."""
    for one in statuses:
        if one["state"] in ("failing", "refused"):
            click.echo(printable(f"{one['table']} is {one['words']}: {one['reason']}"))


def _waiting(project: Project, table: str) -> dict[str, Any] | None:
    """What a table's source has that is in no batch, or the code of the error with which it answers."""
    from kedro_lakehouse.errors import LakehouseError
    from kedro_lakehouse.ingestion.landing import waiting_for
    from kedro_lakehouse.names import TableName

    try:
        found = waiting_for(project.bind(TableName.parse(table)))
    except LakehouseError as error:
        return {"error": error.code}
    return None if found is None else asdict(found)


def _last_pull(project: Project, table: str) -> dict[str, Any]:
    """The last sealed pull of a table, from its manifest; empty where there is none."""
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.pulls.manifest import SealedPulls

    bound = project.bind(TableName.parse(table))
    last = SealedPulls(bound.source_config.path, table).last() if bound.is_pulled else None
    if last is None:
        return {}
    return {"number": last.number, "rows": last.rows, "from": last.from_, "to": last.to, "at": last.sealed_at}


def _pull(last: dict[str, Any] | None) -> str:
    """The same in words; nothing where there is none."""
    if last is None:
        return ""
    return f"{last['number']}: {counted(last['rows'], 'row')}" + (
        f" to {last['to'][:19]}" if last["to"] else ""
    )


def _waits(waiting: dict[str, Any] | None) -> str:
    """The same in words; nothing where nothing waits."""
    if waiting is None or "error" in waiting:
        return waiting["error"] if waiting else ""
    number, noun = waiting["records"], "record"
    if number is None:
        number, noun = waiting["files"], "file"
    since = waiting["seconds"]
    return (counted(number, noun) if number else "") + (f" for {since:,.0f} s" if since is not None else "")


def _cells(one: dict[str, Any]) -> dict[str, object]:
    targets = {"current": one["current_batch"], "history": one["history_batch"]}
    behind = [f"{kind} {batch}" for kind, batch in targets.items() if batch not in (None, one["batch"])]
    rows, versions, last = one["rows"], one["history_rows"], one["last_commit"]
    return {
        "table": one["table"],
        "state": one["words"],
        **({"waits": _waits(one["waiting"])} if "waiting" in one else {}),
        "rows": "" if rows is None else f"{rows:,}",
        "history rows": "" if versions is None else f"{versions:,}",
        "batch": f"{one['batch'] or ''}" + (f" ({', '.join(behind)})" if behind else ""),
        "lag": one["lag"],
        "last commit": last.replace(microsecond=0) if last else None,
        "quarantined": f"{one['quarantined']:,}",
        **({"last pull": _pull(one["pull"])} if "pull" in one else {}),
    }


def _narrow(one: dict[str, Any]) -> dict[str, object]:
    """The cells that fit 80 columns; ``bad`` counts the quarantined records."""
    whole = _cells(one)
    return {
        "table": one["table"],
        "state": one["state"],
        **({"waits": whole["waits"]} if "waits" in whole else {}),
        "rows": whole["rows"],
        "history": whole["history rows"],
        "batch": one["batch"] or "",
        "lag": one["lag"],
        "bad": whole["quarantined"],
    }
