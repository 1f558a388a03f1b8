"""``kedro lakehouse sql``: one read-only query of the lake's tables, without Spark or with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from kedro_lakehouse.cli.options import (
    access_of,
    limit_option,
    moment,
    open_project,
    project_options,
    role_option,
)
from kedro_lakehouse.cli.show import objects, print_json, print_table, say_cut

if TYPE_CHECKING:
    from datetime import datetime

    from kedro_lakehouse.project import Project
    from kedro_lakehouse.query.answer import Answer


@click.command()
@click.argument("query")
@click.option(
    "--as-of",
    callback=moment,
    metavar="TIME",
    help="Read every table as it was published at or before this time (UTC unless it has an offset).",
)
@click.option(
    "--engine",
    type=click.Choice(["duckdb", "spark"]),
    default="duckdb",
    show_default=True,
    help="duckdb reads Iceberg tables at once; spark starts Spark, and reads every format.",
)
@role_option("Answer as this role of grants.yml would be: by what it may see, masked.")
@limit_option(100)
@project_options
def sql(  # noqa: PLR0913 - a command's options
    *,
    query: str,
    as_of: datetime | None,
    engine: Literal["duckdb", "spark"],
    role: str | None,
    limit: int,
    as_json: bool,
) -> None:
    """Ask the tables a question in SQL.

    QUERY is one SELECT, WITH, DESCRIBE or SUMMARIZE in DuckDB's SQL; nothing can be written by it.
    A table is written namespace.table; beside each one there are namespace.table_history, _changes,
    _quarantine and _archive, namespace.table_all (the table and its archive together), the view that its
    history declares, and the project's own ops.batches, ops.runs and ops.batch_ledger.

    With --engine spark it is one SELECT, WITH or DESCRIBE in Spark's SQL, which reads a table as of a time
    by `TIMESTAMP AS OF`; a Delta or Hudi table among Iceberg ones is spark_catalog.namespace.table.

    With --as a role of grants.yml asks: of current tables, histories and their views it sees the granted
    rows and columns, and of change logs, quarantine and ops nothing.

    \b
    Examples:
      kedro lakehouse sql "describe dms_sample.person"
      kedro lakehouse sql "select count(*) from dms_sample.person" --as-of "2026-12-01 06:00"
      kedro lakehouse sql "select * from dms_sample.person version as of 123" --engine spark
    """  # noqa: D301 - \b keeps click from wrapping the examples
    if engine == "spark" and as_of is not None:
        raise click.UsageError("--engine spark takes no --as-of: write `FROM table TIMESTAMP AS OF '...'`.")
    if engine == "spark" and role is not None:
        raise click.UsageError("--as goes with DuckDB: Spark reads whole tables, and knows no grants here.")
    project = open_project()
    if engine == "spark":
        from kedro_lakehouse.cli.spark import spark_answer

        answer = spark_answer(project, query, limit=limit or None)
    else:
        answer = _duckdb(project, query, as_of=as_of, limit=limit or None, role=role)
    if as_json:
        print_json(objects(answer.columns, answer.rows))
    else:
        cells = [["NULL" if value is None else value for value in row] for row in answer.rows]
        print_table(answer.columns, cells, right=answer.numbers)
        if not answer.rows:
            click.echo("(no rows)")
    if answer.cut:
        say_cut(len(answer.rows))


def _duckdb(
    project: Project, query: str, *, as_of: datetime | None, limit: int | None, role: str | None
) -> Answer:
    from kedro_lakehouse.query.answer import run_query
    from kedro_lakehouse.query.lake import QueriedLake

    lake = QueriedLake.of(project, access_of(project, role))
    return run_query(
        project.catalog,
        query,
        as_of=as_of,
        limit=limit,
        declared=lake.declared,
        views=lake.views,
        elsewhere=lake.elsewhere,
        both=lake.both,
        role=lake.role,
    )
