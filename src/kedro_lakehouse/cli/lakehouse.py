"""``kedro lakehouse``: the command group, in any project that installs the package."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from kedro_lakehouse.cli.changes import changes
from kedro_lakehouse.cli.options import env_option
from kedro_lakehouse.cli.plugins import plugins
from kedro_lakehouse.cli.quarantine import quarantine
from kedro_lakehouse.cli.rebuild import rebuild
from kedro_lakehouse.cli.runs import runs
from kedro_lakehouse.cli.sql import sql
from kedro_lakehouse.cli.tables import tables
from kedro_lakehouse.errors import LakehouseError


class LakehouseGroup(click.Group):
    """Commands that end with status 1 and one message where the package says what is wrong."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what the package raises on purpose becomes click's error."""
        try:
            return super().invoke(ctx)
        except LakehouseError as error:
            raise click.ClickException(str(error)) from error
        except FileNotFoundError as error:
            raise click.ClickException(
                f"The lake's catalog names a file that is not there: {Path(str(error.filename)).name}. "
                "The lakehouse's folder was moved, or is being deleted or rebuilt: put it back, or run again."
            ) from error


@click.group(name="lakehouse", cls=LakehouseGroup)
@env_option
def lakehouse() -> None:
    """Look at the lakehouse, and mend it.

    Only `changes`, `rebuild` and `quarantine` (with --replay, or of a blocked batch) start Spark; only the
    last two change what tables hold.
    """


@click.group()
def commands() -> None:
    """Commands that the package adds to Kedro."""


for command in (tables, sql, changes, quarantine, rebuild, runs, plugins):
    lakehouse.add_command(command)
commands.add_command(lakehouse)
