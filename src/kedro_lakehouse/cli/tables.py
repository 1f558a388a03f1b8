"""``kedro lakehouse tables``: where every declared table stands."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from kedro_lakehouse.cli.options import env_option, json_option, open_project
from kedro_lakehouse.cli.show import print_json, print_table

if TYPE_CHECKING:
    from kedro_lakehouse.monitoring.table_status import TableStatus


@click.command()
@env_option
@json_option
def tables(*, as_json: bool) -> None:
    """List the tables, and where each one stands.

    "empty": nothing was ingested yet. "behind": current or history lack batches that are recorded
    in changes; the next `kedro run` brings them. "held": a rollback keeps its state. Times are UTC.
    """
    from kedro_lakehouse.monitoring.table_status import status_of

    project = open_project()
    # Only metadata is read here, and Arrow's reader of files takes a second to import (it imports pandas).
    project.catalog.catalog.properties["py-io-impl"] = "pyiceberg.io.fsspec.FsspecFileIO"
    found = [status_of(project.bind(name)) for name in sorted(project.declarations.tables)]
    if as_json:
        print_json([asdict(one) for one in found])
        return
    if not found:
        click.echo("No table is declared: add one to conf/base/tables.yml.")
        return
    numbers = ("rows", "history rows", "lag", "quarantined")
    headings = ("table", "state", "rows", "history rows", "batch", "lag", "last commit", "quarantined")
    print_table(headings, [_cells(one) for one in found], right=numbers, whole=("table",))


def _cells(one: TableStatus) -> list[object]:
    behind = [
        f"{kind} {batch}"
        for kind, batch in (("current", one.current_batch), ("history", one.history_batch))
        if batch is not None and batch != one.batch
    ]
    return [
        one.table,
        one.state,
        "" if one.rows is None else f"{one.rows:,}",
        "" if one.history_rows is None else f"{one.history_rows:,}",
        (f"{one.batch}" if one.batch else "") + (f" ({', '.join(behind)})" if behind else ""),
        one.lag,
        one.last_commit.replace(microsecond=0) if one.last_commit else None,
        f"{one.quarantined:,}",
    ]
