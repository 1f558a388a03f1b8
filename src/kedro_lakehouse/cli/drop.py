"""``kedro lakehouse drop``: delete all that is stored of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kedro_lakehouse.cli.completion import complete_tables
from kedro_lakehouse.cli.options import open_table, project_options
from kedro_lakehouse.cli.rebuild import confirm, recorded
from kedro_lakehouse.cli.show import print_result

if TYPE_CHECKING:
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.operations.drop import Stored
    from kedro_lakehouse.project import Project


@click.command()
@click.argument("table", shell_complete=complete_tables)
@click.option("--yes", is_flag=True, help="Do not ask.")
@project_options
def drop(*, table: str, yes: bool, as_json: bool) -> None:
    """Delete all that is stored of a table, after saying what goes.

    Its current and history tables, its change log, its quarantine, the view beside its history, and
    its rows of ops.batches, ops.batch_ledger and ops.schemas. Landed files, tables.yml and ops.runs stay;
    so the next `kedro run` makes the table anew from its landed files, unless its block is taken out of
    tables.yml.
    For a new declaration of the same table `rebuild` is safer: it looks first whether all files are there.

    \b
    Examples:
      kedro lakehouse drop shop.item
      kedro lakehouse drop shop.item --yes --json
    """  # noqa: D301 - \b keeps click from wrapping the examples
    from kedro_lakehouse.operations.drop import drop_table, stored

    project, bound = open_table(table)
    name = bound.name
    going = stored(bound)
    if going.nothing:
        _say(going, [], as_json=as_json)
        return
    if not yes and not as_json:
        click.echo("\n".join(_lines(going)), err=True)
    confirm(f"Drop all of this for good, of {name}?", yes=yes)
    dropped = recorded(project, f"drop {name}", lambda: drop_table(bound), changed=[str(name)])
    _say(dropped, _next(project, name), as_json=as_json)


def _lines(found: Stored) -> list[str]:
    """What goes, a line each."""
    lines = [f"  {table}: {rows:,} rows" for table, rows in found.rows.items()]
    lines += [f"  {found.view}: the view"] if found.view else []
    counts = {"ops.batches": found.batches, "ops.batch_ledger": found.planned}
    return lines + [f"  {table}: {count:,} rows of it" for table, count in counts.items() if count]


def _next(project: Project, name: TableName) -> list[str]:
    """What the next run does."""
    made = project.declarations.made_from(name)
    derives = project.table(name).derive
    what = "derives it again from its inputs" if derives else "ingests its landed files anew"
    lines = [f"The next `kedro run` {what}; to be rid of it, take its block out of tables.yml first."]
    if made:
        lines.append(f"Made from it, and as they were until then: {', '.join(made)}.")
    return lines


def _say(found: Stored, following: list[str], *, as_json: bool) -> None:
    facts = {
        "table": str(found.table),
        "dropped": found.rows,
        "view": str(found.view) if found.view else None,
        "ops": {"batches": found.batches, "batch_ledger": found.planned},
        "next": following,
    }
    lines = [f"Dropped of {found.table}:", *_lines(found), *following]
    if found.nothing:
        lines = [f"Nothing is stored of {found.table}."]
    print_result(facts, "\n".join(lines), as_json=as_json)
