"""``kedro lakehouse sql``: one read-only query of the lake's tables, without Spark."""

from __future__ import annotations

from datetime import UTC, datetime

import click

from kedro_lakehouse.cli.options import env_option, json_option, limit_option, open_project
from kedro_lakehouse.cli.show import objects, print_json, print_table, say_cut


def _moment(_: click.Context, __: click.Parameter, value: str | None) -> datetime | None:
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
    except ValueError as error:
        raise click.BadParameter("give a time such as '2026-11-21 00:21:18' (UTC).") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


@click.command()
@click.argument("query")
@click.option(
    "--as-of",
    callback=_moment,
    metavar="TIME",
    help="Read every table as it was published at or before this time (UTC unless it has an offset).",
)
@limit_option(100)
@env_option
@json_option
def sql(*, query: str, as_of: datetime | None, limit: int, as_json: bool) -> None:
    """Ask the tables a question in SQL.

    QUERY is one SELECT, WITH, DESCRIBE or SUMMARIZE in DuckDB's SQL; nothing can be written by it.
    A table is written namespace.table; beside each one there are namespace.table_history, _changes
    and _quarantine, the view that its history declares, and the project's own ops.batches, ops.runs
    and ops.batch_ledger.

    \b
    Examples:
      kedro lakehouse sql "describe dms_sample.person"
      kedro lakehouse sql "select count(*) from dms_sample.person" --as-of "2026-12-01 06:00"
    """  # noqa: D301 - \b keeps click from wrapping the examples
    from kedro_lakehouse.cli.query import run_query
    from kedro_lakehouse.formats.view import view_name

    project = open_project()
    declared = {
        str(name.with_suffix(role))
        for name in project.declarations.tables
        for role in ("current", "history", "changes", "quarantine")
    }
    views = {
        str(view_name(name, table.history.view)): (name, table)
        for name, table in project.declarations.tables.items()
        if table.history and table.history.view
    }
    answer = run_query(
        project.catalog, query, as_of=as_of, limit=limit or None, declared=declared, views=views
    )
    if as_json:
        print_json(objects(answer.columns, answer.rows))
    else:
        cells = [["NULL" if value is None else value for value in row] for row in answer.rows]
        print_table(answer.columns, cells, right=answer.numbers)
        if not answer.rows:
            click.echo("(no rows)")
    if answer.cut:
        say_cut(len(answer.rows))
