"""``kedro lakehouse quarantine``: events that could not be applied, and why."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import click

from kedro_lakehouse.cli.options import env_option, json_option, limit_option, open_project
from kedro_lakehouse.cli.show import print_json, print_table, say_cut

if TYPE_CHECKING:
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project


@click.command()
@click.argument("table", required=False)
@click.option("--batch", type=int, metavar="N", help="Only the events of this batch.")
@click.option("--raw", is_flag=True, help="Print the raw records too; they may hold personal data.")
@limit_option(100)
@env_option
@json_option
def quarantine(*, table: str | None, batch: int | None, raw: bool, limit: int, as_json: bool) -> None:
    """List events that could not be applied.

    Without TABLE: their number by table and first reason. With TABLE: batch, file, row and reasons.
    An event's first reason is the one that decides; the others hold as well.

    \b
    Examples:
      kedro lakehouse quarantine
      kedro lakehouse quarantine sp500.constituents --batch 1 --raw
    """  # noqa: D301 - \b keeps click from wrapping the examples
    from kedro_lakehouse.names import TableName

    if raw and table is None:
        raise click.UsageError("--raw needs a TABLE.")
    project = open_project()
    if table is not None:
        name = TableName.parse(table)
        project.table(name)  # refuses a table that is not declared
        _list_events(_events(project, name, batch, raw=raw), limit=limit, as_json=as_json)
        return
    counted = [row for name in sorted(project.declarations.tables) for row in _counts(project, name, batch)]
    if as_json:
        print_json(counted)
    elif counted:
        print_table(
            ("table", "first reason", "events"), [list(row.values()) for row in counted], right=("events",)
        )
    else:
        click.echo("No event is quarantined.")


def _counts(project: Project, name: TableName, batch: int | None) -> list[dict[str, object]]:
    reasons = Counter((event["reasons"] or [""])[0] for event in _events(project, name, batch, raw=False))
    return [
        {"table": str(name), "first_reason": reason, "events": count}
        for reason, count in reasons.most_common()
    ]


def _events(project: Project, name: TableName, batch: int | None, *, raw: bool) -> list[dict[str, Any]]:
    """The quarantined events of a table by batch, file and row; ``raw`` reads the records too."""
    import pyiceberg.expressions as built

    found = project.catalog.find(name.with_suffix("quarantine"))
    if found is None:
        return []
    where: Any = built  # its models hide their positional arguments from type checkers
    wanted = where.AlwaysTrue() if batch is None else where.EqualTo("_batch", batch)
    fields = ("_batch", "_position", "_reasons", *(("_raw",) if raw else ()))
    rows = found.scan(row_filter=wanted, selected_fields=fields).to_arrow().to_pylist()
    events = [
        {
            "batch": row["_batch"],
            "file": (row["_position"] or {}).get("file"),
            "row": (row["_position"] or {}).get("row"),
            "reasons": row["_reasons"],
            **({"raw": row["_raw"]} if raw else {}),
        }
        for row in rows
    ]
    return sorted(events, key=lambda e: (e["batch"] or 0, e["file"] or "", e["row"] or 0))


def _list_events(events: list[dict[str, Any]], *, limit: int, as_json: bool) -> None:
    shown = events[: limit or None]
    if as_json:
        print_json(shown)
    elif shown:
        cells = [[*(event | {"reasons": ", ".join(event["reasons"] or ())}).values()] for event in shown]
        print_table(tuple(shown[0]), cells, right=("batch", "row"))
    else:
        click.echo("No such event is quarantined.")
    if len(events) > len(shown):
        say_cut(len(shown))
