"""``kedro lakehouse tables``: where every declared table stands."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Literal

import click

from kedro_lakehouse.cli.options import env_option, json_option, open_project
from kedro_lakehouse.cli.show import print_json, print_table

if TYPE_CHECKING:
    from datetime import datetime

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import Role, TableName
    from kedro_lakehouse.project import Project


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Where one table stands; None where the declaration keeps no such table.

    ``lag`` is the number of recorded batches that current or history do not have yet.
    """

    table: str
    state: Literal["empty", "up to date", "behind"]
    rows: int | None
    history_rows: int | None
    batch: int
    current_batch: int | None
    history_batch: int | None
    lag: int
    last_commit: datetime | None
    quarantined: int


@click.command()
@env_option
@json_option
def tables(*, as_json: bool) -> None:
    """List the tables, and where each one stands.

    "empty": nothing was ingested yet. "behind": current or history lack batches that are recorded
    in changes; the next `kedro run` brings them. Times are UTC.
    """
    project = open_project()
    # Only metadata is read here, and Arrow's reader of files takes a second to import (it imports pandas).
    project.catalog.catalog.properties["py-io-impl"] = "pyiceberg.io.fsspec.FsspecFileIO"
    found = [standing(project, name, table) for name, table in sorted(project.declarations.tables.items())]
    if as_json:
        print_json([asdict(one) for one in found])
        return
    if not found:
        click.echo("No table is declared: add one to conf/base/tables.yml.")
        return
    numbers = ("rows", "history rows", "lag", "quarantined")
    headings = ("table", "state", "rows", "history rows", "batch", "lag", "last commit", "quarantined")
    print_table(headings, [_cells(one) for one in found], right=numbers, whole=("table",))


def standing(project: Project, name: TableName, table: TableConfig) -> Standing:
    """Read where a table stands from the metadata of what belongs to it."""
    from kedro_lakehouse.formats.glance import Glance, glance

    def look(role: Role) -> Glance:
        return glance(project.catalog, name.with_suffix(role)) or Glance()

    changes, current = look("changes"), look("current") if table.current else None
    history = look("history") if table.history else None
    targets = [target for target in (current, history) if target]
    commits = [seen.committed for seen in (changes, *targets) if seen.committed]
    lag = max((changes.batch - target.batch for target in targets), default=0)
    return Standing(
        table=str(name),
        state="empty" if not commits else "behind" if lag > 0 else "up to date",
        rows=current.rows if current else None,
        history_rows=history.rows if history else None,
        batch=changes.batch,
        current_batch=current.batch if current else None,
        history_batch=history.batch if history else None,
        lag=max(lag, 0),
        last_commit=max(commits, default=None),
        quarantined=look("quarantine").rows,
    )


def _cells(one: Standing) -> list[object]:
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
