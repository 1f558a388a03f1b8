"""``kedro lakehouse logs``: the lines of a run, of Python and the JVM, in the order of time."""

from __future__ import annotations

from typing import Any

import click

from kedro_lakehouse.cli.completion import complete_tables
from kedro_lakehouse.cli.options import no_roles, open_project, project_options
from kedro_lakehouse.cli.show import print_result, printable


@click.command()
@click.argument("words", nargs=-1, metavar="[ID]")
@click.option(
    "--table", metavar="TABLE", shell_complete=complete_tables, help="Only the lines about this table."
)
@click.option("--cloudwatch", is_flag=True, help="Print the CloudWatch Logs Insights query for ID instead.")
@project_options
@no_roles("Logs are shown to no role:")
def logs(*, words: tuple[str, ...], table: str | None, cloudwatch: bool, as_json: bool) -> None:
    """Print the log of a run, all its lines in the order of time.

    ID is a run's id (as `kedro lakehouse runs` lists it, its beginning is enough), or a scheduler's: its
    run id prints all tasks of that run, `dag.task run_id` prints one of them, `dag.task` that task's
    runs. Without ID: the last run.
    Logs of the last 100 runs are kept. Times are UTC.

    \b
    Examples:
      kedro lakehouse logs
      kedro lakehouse logs 20261121T172729_1f2e3d4c --table shop.item
      kedro lakehouse logs data_pipeline.glue_task manual__2022-07-12T00:22:36.111190+00:00
      kedro lakehouse logs manual__2022-07-12T00:22:36.111190+00:00 --cloudwatch
    """  # noqa: D301 - \b keeps click from wrapping the examples
    from kedro_lakehouse.logs.kept import find_logs, read_lines
    from kedro_lakehouse.logs.scheduler import cloudwatch_query
    from kedro_lakehouse.names import TableName

    wanted = " ".join(words) or None
    if cloudwatch:
        if wanted is None:
            raise click.UsageError("--cloudwatch needs an ID.")
        query = cloudwatch_query(wanted)
        print_result({"query": query}, query, as_json=as_json)
        return
    project = open_project()
    if table is not None:
        project.table(TableName.parse(table))  # refuses a table that is not declared
    lines = read_lines(find_logs(project.logs, wanted))
    shown = [line for line in lines if table is None or line["table"] == table]
    print_result(shown, "\n".join(map(_text, shown)), as_json=as_json)


def _text(line: dict[str, Any]) -> str:
    """A line for people: time, level, who wrote it, what it is about, what it says."""
    origin = "executor" if line.get("task") else "driver" if line["origin"] == "jvm" else "python"
    about = " ".join(str(line[f]) for f in ("node", "batch") if line.get(f))
    parts = (f"{line['level']:<7}", f"{origin:<8}", f"[{about}]" if about else "", line["message"])
    text = " ".join(printable(str(part)) for part in (line["time"], *parts) if part)
    return text + (f" ({printable(str(line['error']))})" if line.get("error") else "")
