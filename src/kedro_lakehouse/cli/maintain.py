"""``kedro lakehouse maintain``: put the files of tables in order, or tell what would be done."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

import click

from kedro_lakehouse.cli.completion import complete_tables
from kedro_lakehouse.cli.options import open_project, project_options
from kedro_lakehouse.cli.rebuild import recorded
from kedro_lakehouse.cli.show import print_result

if TYPE_CHECKING:
    from kedro_lakehouse.formats.maintenance import MaintenanceReport
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project


@click.command()
@click.argument("table", required=False, shell_complete=complete_tables)
@click.option("--dry-run", is_flag=True, help="Tell what is due, and do nothing.")
@project_options
def maintain(*, table: str | None, dry_run: bool, as_json: bool) -> None:
    """Put the files of a table, or of all, in order, and move its old rows.

    Moves old rows of tables with a `retention` to their archive, or removes them. Compacts small files and
    files with many deleted rows, merges lists of files, expires old snapshots, deletes files that no
    snapshot has, and archives landed files: from the thresholds of maintenance.yml on. Below them nothing
    is done and no Spark is started. Other rows, and all bookmarks, stay as they are. Without a
    TABLE the project's own tables (ops) are put in order too. `kedro run --pipelines=maintenance` does
    the same, and compacts the change log.

    \b
    Examples:
      kedro lakehouse maintain --dry-run
      kedro lakehouse maintain dms_sample.person --json
    """  # noqa: D301 - \b keeps click from wrapping the examples
    from kedro_lakehouse.names import TableName

    project = open_project()
    known = sorted([*project.declarations.tables, *project.conversions])
    names = known if table is None else [TableName.parse(table)]
    for name in names:
        if name not in known:
            project.table(name)  # says what is declared
    work = partial(_all, project, names, own=table is None, dry_run=dry_run)
    found = work() if dry_run else recorded(project, "maintain", work)
    lines = [line for report in found if report.actions for line in _lines(report, dry_run=dry_run)]
    print_result([asdict(one) for one in found], "\n".join(lines) or "Nothing is due.", as_json=as_json)


def _all(project: Project, names: list[TableName], *, own: bool, dry_run: bool) -> list[MaintenanceReport]:
    from kedro_lakehouse.operations.maintain import maintain_ops, maintain_table

    found = [
        report for name in names for report in maintain_table(project, project.bind(name), dry_run=dry_run)
    ]
    return found + (maintain_ops(project, dry_run=dry_run) if own else [])


def _lines(report: MaintenanceReport, *, dry_run: bool) -> list[str]:
    from kedro_lakehouse.operations.maintain import summary_line

    if not dry_run:
        return [summary_line(report)]
    return [f"{report.table}: {one.work.replace('_', ' ')} is due: {one.reason}" for one in report.actions]
