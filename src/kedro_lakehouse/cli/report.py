"""``kedro lakehouse report``: a page about one run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kedro_lakehouse.cli.options import no_roles, open_project, project_options
from kedro_lakehouse.cli.runs import chosen_run
from kedro_lakehouse.cli.show import print_result

if TYPE_CHECKING:
    from kedro_lakehouse.project import Project


@click.command()
@click.argument("run_id", metavar="[RUN]", required=False)
@click.option("--to", metavar="FILE", help="Write the page to this new file, which only you can read.")
@project_options
@no_roles("What runs did is shown to no role:")
def report(*, run_id: str | None, to: str | None, as_json: bool) -> None:
    """Make a page about RUN, by default the newest one: what came in, changed and failed, and when.

    RUN is the name of a run that `kedro lakehouse runs` lists, or its beginning. The page is one HTML file
    that loads nothing and holds no values of rows. It is kept as a new version of the catalog's entry
    `ops.run_report`, or of that which `report` of monitoring.yml names; with the key each `kedro run` makes
    its page at its end.

    \b
    Examples:
      kedro lakehouse report
      kedro lakehouse report 20261128T06 --to run.html
    """  # noqa: D301 - \b keeps click from wrapping the examples
    from kedro_lakehouse.errors import UnsupportedError
    from kedro_lakehouse.monitoring.run_report import page_of, run_report
    from kedro_lakehouse.monitoring.runs import known_runs

    project = open_project()
    runs = known_runs(project.ops)
    if not runs:
        raise UnsupportedError(
            what="No run changed a table or failed yet, so there is nothing to report.",
            remedy="Run `kedro run`, then `kedro lakehouse report`.",
        )
    run = chosen_run(runs, run_id or runs[0]["run_id"])
    page = page_of(run_report(project, run))
    place = _written(page, to) if to is not None else _kept(project, page)
    facts = {"run": run["run_id"], "report": place}
    print_result(facts, f"The report of run {run['run_id']}: {place}", as_json=as_json)


def _written(page: str, to: str) -> str:
    from kedro_lakehouse.private import private_file

    path = Path(to)
    if path.exists() or path.is_symlink():
        raise click.UsageError(f"{to} is there already: give another name.")
    if not path.parent.is_dir():
        raise click.UsageError(f"There is no folder {path.parent}.")
    private_file(path).write_text(page, encoding="utf-8")
    return to


def _kept(project: Project, page: str) -> str:
    """Save the page by the project's catalog, as a run does; where it is now."""
    from kedro.framework.session import KedroSession

    from kedro_lakehouse.monitoring.run_report import keep_page, report_entry
    from kedro_lakehouse.project import find_root

    session: Any = KedroSession.create(project_path=find_root(), env=project.env)
    return keep_page(session.load_context().catalog, report_entry(project), page)
