"""``kedro lakehouse rebuild``: make a table anew under its present declaration."""

from __future__ import annotations

import sys
from contextlib import ExitStack, redirect_stdout
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import click

from kedro_lakehouse.cli.completion import complete_tables
from kedro_lakehouse.cli.options import open_table, project_options
from kedro_lakehouse.cli.show import print_result

if TYPE_CHECKING:
    from collections.abc import Collection

    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project


@click.command()
@click.argument("table", shell_complete=complete_tables)
@click.option(
    "--from-landing", is_flag=True, help="Drop all that is stored and ingest the landed files anew."
)
@click.option("--yes", is_flag=True, help="Do not ask.")
@project_options
def rebuild(*, table: str, from_landing: bool, yes: bool, as_json: bool) -> None:
    """Make a table anew under its present declaration. Starts Spark.

    Folds the current and the history table again from the change log: after a change of tracked
    columns, of the columns that are kept, of ties or of ignored nulls. Each is replaced in one commit;
    readers see the old rows until then. Columns that are no longer kept leave the change log too.

    Other keys, another order or other types of the source need --from-landing: the change log, the
    quarantine, current and history are dropped, and every file that was ever ingested is read again.
    A derived table has no files: it is derived again from its inputs, and its history begins anew.

    \b
    Examples:
      kedro lakehouse rebuild shop.item
      kedro lakehouse rebuild shop.item --from-landing --yes
    """  # noqa: D301 - \b keeps click from wrapping the examples
    from kedro_lakehouse.monitoring.table_status import LakeFacts, status_of
    from kedro_lakehouse.operations.rebuild import begin_again, rebuild_from_changes, refuse_rebuild

    project, bound = open_table(table)
    name = bound.name
    if from_landing:
        again, lost = "read its landed files again", ""
        if bound.config.derive is not None:
            again, lost = "derive it again from its inputs", " Its history begins anew."
        what = f"Drop all that is stored of {name}, and {again}?{lost}"
    else:
        refuse_rebuild(bound)
        what = f"Replace all rows of {name} by what its change log holds?"
    confirm(what, yes=yes)
    if from_landing:
        begin_again(bound)
        _run(project, name, as_json=as_json)
    else:
        recorded(project, f"rebuild {name}", lambda: rebuild_from_changes(bound), changed=[str(name)])
    stands = status_of(bound, LakeFacts(project))
    kept = {"rows": stands.rows, "history_rows": stands.history_rows}
    message = ", ".join(f"{n:,} {word.replace('_', ' ')}" for word, n in kept.items() if n is not None)
    message = f"{name} is rebuilt up to batch {stands.batch}: {message or 'nothing is kept'}."
    print_result({"table": str(name), "batch": stands.batch, **kept}, message, as_json=as_json)


def confirm(question: str, *, yes: bool) -> None:
    """Ask before work that replaces rows; where nobody can answer, refuse.

    Raises:
        click.UsageError: There is no terminal, and --yes was not given.
        click.Abort: The answer is no.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("Nobody can be asked here: add --yes.")
    click.confirm(question, abort=True, err=True)


def recorded(project: Project, what: str, work: Any, *, changed: Collection[str] = ()) -> Any:
    """Do a command's work as a run of its own: it gets its log, its commits their rows of ``lake.ops``."""
    from kedro_lakehouse.commits.acknowledge import write_unrecorded_commits
    from kedro_lakehouse.logs.context import working_on
    from kedro_lakehouse.monitoring.run_log import RunLog
    from kedro_lakehouse.monitoring.runs import record_run

    started, params = datetime.now(UTC), {"pipeline_name": what}
    with RunLog(project, params), working_on(node=what):
        write_unrecorded_commits(project.ops, map(project.bind, project.all_tables))
        try:
            done = work()
        except Exception as error:
            record_run(project, params, started, error)
            raise
        record_run(project, params, started, None, changed=changed)
    return done


def _run(project: Project, name: TableName, *, as_json: bool) -> None:
    """Run all pipelines of one table, as ``kedro run --namespaces`` does."""
    from kedro_lakehouse.project import find_root
    from kedro_lakehouse.runners import run_tables

    with ExitStack() as stack:
        if as_json:
            stack.enter_context(redirect_stdout(sys.stderr))  # the run's summary is for people
        run_tables(find_root(), project.env, [str(name)])
