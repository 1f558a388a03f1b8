"""``kedro lakehouse check``: every mistake in all declarations at once, before anything runs."""

from __future__ import annotations

import time
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING, Final

import click

from kedro_lakehouse.cli.options import env_name, no_roles, output_option, project_options
from kedro_lakehouse.cli.show import print_json, printable
from kedro_lakehouse.errors import counted
from kedro_lakehouse.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kedro_lakehouse.preview.check import Checked
    from kedro_lakehouse.preview.mistakes import Mistake

_INDENT: Final = "    "


@click.command()
@click.option("--reach", is_flag=True, help="Also ask streams, databases, services and buckets.")
@click.option("--spark", is_flag=True, help="Also let Spark's own parser and analyser look at the SQL.")
@output_option
@project_options
@no_roles("Mistakes in declarations are shown to no role:")
def check(*, reach: bool, spark: bool, as_json: bool) -> None:
    """Look for mistakes in all declarations, and tell all of them at once.

    Each comes with its file, its line and its remedy. Looked at are all files of the environment, the SQL of
    checks and derived tables, the columns that they name where these are known, entries of credentials.yml,
    table formats, and the folders of sources. Nothing is written, and without --spark no JVM starts.
    Ends with status 1 if there is a mistake.

    \b
    Examples:
      kedro lakehouse check
      kedro lakehouse check --env aws --reach
      kedro lakehouse check --output json
    """  # noqa: D301 - \b keeps click from wrapping the examples
    from kedro.framework.project import settings
    from kedro.framework.startup import bootstrap_project

    from kedro_lakehouse.preview.check import check_project
    from kedro_lakehouse.project import find_root

    begun, root = time.perf_counter(), find_root()
    bootstrap_project(root)
    _, found = check_project(str(root / settings.CONF_SOURCE), env_name(), reach=reach, spark=spark)
    if as_json:
        print_json(asdict(found))
    else:
        for line in _lines(found):
            click.echo(printable(redacted(line)))
        click.echo(printable(_last(found, time.perf_counter() - begun)))
    if found.mistakes:
        click.get_current_context().exit(1)


def _lines(found: Checked) -> Iterable[str]:
    """The mistakes, those of a file below its name."""
    for file, mistakes in groupby(found.mistakes, key=lambda one: one.file):
        yield file
        for one in mistakes:
            yield from _of(one)
        yield ""


def _of(one: Mistake) -> Iterable[str]:
    place = f"line {one.line}" if one.line else "file"
    yield f"  {place}: {one.key}  [{one.code}]"
    yield f"{_INDENT}{one.problem}"
    yield f"{_INDENT}{one.remedy}"


def _last(found: Checked, seconds: float) -> str:
    looked = (
        f"{counted(found.tables, 'table')}, {counted(found.sources, 'source')} and "
        f"{counted(found.queries, 'text')} of SQL"
    )
    if not found.mistakes:
        return f"No mistake in {looked} (environment {found.environment}, {seconds:.1f} s)."
    files = len({one.file for one in found.mistakes})
    return (
        f"{counted(len(found.mistakes), 'mistake')} in {counted(files, 'file')}; looked at {looked} "
        f"(environment {found.environment}, {seconds:.1f} s)."
    )
