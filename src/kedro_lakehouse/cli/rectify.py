"""``kedro lakehouse rectify``: give what is stored of a person its right values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from kedro_lakehouse.cli.options import open_project, project_options
from kedro_lakehouse.cli.rebuild import confirm, recorded
from kedro_lakehouse.cli.show import print_result
from kedro_lakehouse.cli.subjects import given, subject_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.erasure.rows import Erased


@click.command()
@subject_options
@click.option(
    "--set",
    "changes",
    multiple=True,
    required=True,
    metavar="COLUMN=VALUE",
    help="A right value; repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Say how many rows would be other ones.")
@project_options
def rectify(  # noqa: PLR0913 - one argument an option
    *,
    subjects: tuple[str, ...],
    values_from: str | None,
    changes: tuple[str, ...],
    tables: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Give columns of persons' rows their right values, in every version of them. Starts Spark.

    In each table with a `subject` that has the column: in the change log, the current table, and all versions
    of the history. Rows of others stay as they are. The files that held the former values are rewritten, and
    earlier snapshots expire. Landed files and the quarantine are not changed: correct the source too, because
    its next extract, or a rebuild from landed files, brings the former value back.

    \b
    Examples:
      kedro lakehouse rectify 51936 --set phonenumber=000 --dry-run
      kedro lakehouse rectify 51936 --set phonenumber=000 --yes
    """  # noqa: D301 - \b keeps click from wrapping the examples
    from kedro_lakehouse.erasure.erase import rectify as rectify_subjects

    values = given(subjects, values_from)
    right = dict(_pair(text) for text in changes)
    project = open_project()
    planned = rectify_subjects(project, values, right, tables, dry_run=True)
    if dry_run or not planned:
        print_result(_facts(planned), "\n".join(_lines(planned, "would change")), as_json=as_json)
        return
    if not yes and not as_json:
        click.echo("\n".join(_lines(planned, "would change")), err=True)
    confirm("Change these rows for good?", yes=yes)
    done = recorded(
        project,
        "rectify",
        lambda: rectify_subjects(project, values, right, tables),
        changed=sorted({one.table for one in planned}),
    )
    print_result(_facts(done), "\n".join(_lines(done, "changed")), as_json=as_json)


def _pair(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name.strip():
        raise click.BadParameter(f"{text!r} is not COLUMN=VALUE.", param_hint="--set")
    return name.strip(), value


def _facts(found: Sequence[Erased]) -> list[dict[str, Any]]:
    return [{"table": one.table, "rows": one.removed} for one in found]


def _lines(found: Sequence[Erased], verb: str) -> list[str]:
    if not found:
        return ["All rows of these subjects have these values already, or there are none."]
    return [f"{one.table}: {one.removed:,} rows {verb}" for one in found]
