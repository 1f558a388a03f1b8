"""``kedro lakehouse sql``: one read-only query of the lake's tables, without Spark or with it."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, cast

import click

from kedro_lakehouse.cli.completion import complete_query
from kedro_lakehouse.cli.options import access_of, moment, open_project, project_options, role_option
from kedro_lakehouse.cli.sql_output import (
    EXPORTS,
    OUTPUTS,
    Output,
    hidden_columns,
    opened_target,
    print_answer,
    say_hidden,
    without_columns,
    write_batches,
)
from kedro_lakehouse.cli.sql_statements import (
    asks_for_names,
    described_table,
    description_elsewhere,
    shown_names,
    with_notes,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from datetime import datetime

    import pyarrow as pa

    from kedro_lakehouse.grants.access import RoleAccess
    from kedro_lakehouse.project import Project
    from kedro_lakehouse.query.answer import Answer

_PRINTED: Final = 100
_BATCH: Final = 50_000


@click.command()
@click.argument("query", shell_complete=complete_query)
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
@click.option(
    "--output",
    "-o",
    type=click.Choice(OUTPUTS),
    help="How to show the answer; by default as FILE's ending says, else a table. vertical: a line a value.",
)
@click.option("--to", metavar="FILE", help="Write csv or parquet to this new file, which only you can read.")
@click.option(
    "--all-columns",
    is_flag=True,
    help="Show the framework's columns too, such as _order, that the query does not name.",
)
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    help=f"Give at most so many rows; 0 gives all. Default: {_PRINTED}; csv and parquet are whole.",
)
@role_option("Answer as this role of grants.yml would be: by what it may see, masked.")
@project_options
def sql(  # noqa: PLR0913 - a command's options
    *,
    query: str,
    as_of: datetime | None,
    engine: Literal["duckdb", "spark"],
    output: Output | None,
    to: str | None,
    all_columns: bool,
    role: str | None,
    limit: int | None,
    as_json: bool,
) -> None:
    """Ask the tables a question in SQL.

    QUERY is one SELECT, WITH, DESCRIBE or SUMMARIZE in DuckDB's SQL, or SHOW TABLES [FROM namespace], SHOW
    NAMESPACES; nothing can be written by it. A table is written namespace.table; beside each one there are
    namespace.table_history, _changes, _quarantine and _archive, namespace.table_all (the table and its
    archive together), the view that its history declares, and the project's own ops.batches, ops.runs and
    ops.batch_ledger. The framework's columns, such as _order, are shown where the query names them.

    With --engine spark it is one SELECT, WITH or DESCRIBE in Spark's SQL, which reads a table as of a time
    by `TIMESTAMP AS OF`; a Delta or Hudi table among Iceberg ones is spark_catalog.namespace.table.

    With --as a role of grants.yml asks: of current tables, histories and their views it sees the granted
    rows and columns, and of change logs, quarantine and ops nothing.

    \b
    Examples:
      kedro lakehouse sql "show tables"
      kedro lakehouse sql "describe dms_sample.person"
      kedro lakehouse sql "select * from dms_sample.person" --limit 1 --output vertical
      kedro lakehouse sql "from dms_sample.person" --to person.parquet
      kedro lakehouse sql "select count(*) from dms_sample.person" --as-of "2026-12-01 06:00"
      kedro lakehouse sql "select * from dms_sample.person version as of 123" --engine spark
    """  # noqa: D301 - \b keeps click from wrapping the examples
    if engine == "spark" and as_of is not None:
        raise click.UsageError("--engine spark takes no --as-of: write `FROM table TIMESTAMP AS OF '...'`.")
    if engine == "spark" and role is not None:
        raise click.UsageError("--as goes with DuckDB: Spark reads whole tables, and knows no grants here.")
    chosen = _chosen(output, to, as_json=as_json)
    if as_of is not None and asks_for_names(query):
        raise click.UsageError("Names are those of now: leave --as-of away.")
    project = open_project()
    question = _Question(
        project=project,
        text=query,
        engine=engine,
        as_of=as_of,
        access=access_of(project, role),
        all_columns=all_columns,
    )
    if chosen in EXPORTS:
        at_most, kind = limit or None, chosen
        with question.batches(at_most) as batches, opened_target(kind, to) as file:
            write_batches(batches, file, kind, hidden=question.hidden(batches.schema.names), limit=at_most)
    else:
        print_answer(question.answer((_PRINTED if limit is None else limit) or None), chosen)


def _chosen(output: Output | None, to: str | None, *, as_json: bool) -> Output:
    """The output that is asked for.

    Raises:
        click.UsageError: The options contradict each other.
    """
    if as_json and output not in (None, "json"):
        raise click.UsageError(f"--json and --output {output} contradict each other.")
    if to is None:
        return "json" if as_json else output or "table"
    by_name = Path(to).suffix.removeprefix(".").lower()
    chosen = output or by_name
    if as_json or chosen not in EXPORTS:
        raise click.UsageError("--to writes csv or parquet: end the name so, or say it by --output.")
    return cast("Output", chosen)


@dataclass(frozen=True, kw_only=True)
class _Question:
    """What is asked, of what, and for whom."""

    project: Project
    text: str
    engine: Literal["duckdb", "spark"]
    as_of: datetime | None
    access: RoleAccess | None
    all_columns: bool

    def hidden(self, names: Sequence[str]) -> list[str]:
        """The columns that are not shown; they are told beside the output."""
        found = [] if self.all_columns else hidden_columns(names, self.text)
        say_hidden(found)
        return found

    def answer(self, limit: int | None) -> Answer:
        """The columns and rows that are shown."""
        if (names := shown_names(self.project, self.text, self.access)) is not None:
            return names
        if self.engine == "spark":
            from kedro_lakehouse.cli.spark import spark_answer

            found = spark_answer(self.project, self.text, limit=limit)
        else:
            found = self._by_duckdb(limit)
        return without_columns(found, self.hidden(found.columns))

    def _by_duckdb(self, limit: int | None) -> Answer:
        name = described_table(self.text)
        if name is not None and self.access is None and self.as_of is None:
            elsewhere = description_elsewhere(self.project, name)
            if elsewhere is not None:
                return with_notes(self.project, name, elsewhere)
        answer = _duckdb(self.project, self.text, as_of=self.as_of, limit=limit, access=self.access)
        return answer if name is None else with_notes(self.project, name, answer)

    @contextmanager
    def batches(self, limit: int | None) -> Iterator[pa.RecordBatchReader]:
        """The answer as Arrow's batches; a row more than ``limit`` where there are more."""
        import pyarrow as pa

        if asks_for_names(self.text) or (described_table(self.text) and self.engine == "duckdb"):
            few = self.answer(None)
            columns = {name: [row[place] for row in few.rows] for place, name in enumerate(few.columns)}
            yield pa.table(columns).to_reader()
        elif self.engine == "spark":
            from kedro_lakehouse.cli.spark import spark_batches

            yield spark_batches(self.project, self.text, limit=limit)
        else:
            from kedro_lakehouse.query.answer import asked, gives_up
            from kedro_lakehouse.query.lake import QueriedLake

            lake, more = QueriedLake.of(self.project, self.access), None if limit is None else limit + 1
            catalog = self.project.catalog
            with asked(catalog, self.text, lake, as_of=self.as_of, limit=more) as found, gives_up():
                relation = found.connection.sql(self.text)
                yield (relation if more is None else relation.limit(more)).to_arrow_reader(_BATCH)


def _duckdb(
    project: Project, query: str, *, as_of: datetime | None, limit: int | None, access: RoleAccess | None
) -> Answer:
    from kedro_lakehouse.query.answer import answer_over
    from kedro_lakehouse.query.lake import QueriedLake

    lake = QueriedLake.of(project, access)
    return answer_over(project.catalog, query, lake, as_of=as_of, limit=limit)
