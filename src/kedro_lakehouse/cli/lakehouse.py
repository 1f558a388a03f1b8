"""``kedro lakehouse``: the command group, in any project that installs the package."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, Any, Final

import click

from kedro_lakehouse.cli.changes import changes
from kedro_lakehouse.cli.console import console
from kedro_lakehouse.cli.deploy import deploy
from kedro_lakehouse.cli.drop import drop
from kedro_lakehouse.cli.import_config import import_config
from kedro_lakehouse.cli.init import init
from kedro_lakehouse.cli.logs import logs
from kedro_lakehouse.cli.maintain import maintain
from kedro_lakehouse.cli.options import AS_JSON, env_option
from kedro_lakehouse.cli.plugins import plugins
from kedro_lakehouse.cli.quarantine import quarantine
from kedro_lakehouse.cli.rebuild import rebuild
from kedro_lakehouse.cli.rollback import rollback
from kedro_lakehouse.cli.runs import runs
from kedro_lakehouse.cli.search import search
from kedro_lakehouse.cli.snapshots import branch, snapshots, tag
from kedro_lakehouse.cli.sql import sql
from kedro_lakehouse.cli.tables import tables
from kedro_lakehouse.errors import LakehouseError, TerminalError
from kedro_lakehouse.redaction import redacted


class FileGoneError(TerminalError):
    """A file that the lake's catalog names is not there."""

    code = "FILE_GONE"
    file: str
    summary = "The lake's catalog names a file that is not there: {file}."
    advice = "The lakehouse's folder was moved, or is being deleted or rebuilt: put it back, or `kedro run`."


class ErrorAsJson(click.ClickException):
    """What went wrong as one JSON object on stderr: code, what is wrong, what to do."""

    def __init__(self, code: str, message: str, remedy: str) -> None:
        """Keep the facts of an error."""
        super().__init__(redacted(message))
        self._facts = {"code": code, "message": redacted(message), "remedy": redacted(remedy)}

    def show(self, file: IO[Any] | None = None) -> None:
        """Print it."""
        click.echo(json.dumps({"error": self._facts}, ensure_ascii=False), file=file, err=file is None)


class MisuseAsJson(ErrorAsJson):
    """The same, of words that are no command."""

    exit_code = click.UsageError.exit_code


class LakehouseGroup(click.Group):
    """Commands that end with status 1 and one message where the package says what is wrong."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Remember whether JSON is asked for: also where the command's own words cannot be understood."""
        ctx.meta[AS_JSON] = "--json" in args
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; what the package raises on purpose becomes click's error."""
        try:
            return super().invoke(ctx)
        except LakehouseError as error:
            raise _told(ctx, error) from error
        except FileNotFoundError as error:
            raise _told(ctx, FileGoneError(file=Path(str(error.filename)).name)) from error
        except click.ClickException as error:
            if not ctx.meta[AS_JSON]:
                raise
            kind = MisuseAsJson if isinstance(error, click.UsageError) else ErrorAsJson
            remedy = "`kedro lakehouse --help` lists the commands."
            raise kind("USAGE", error.format_message(), remedy) from error


def _told(ctx: click.Context, error: LakehouseError) -> click.ClickException:
    as_json = ErrorAsJson(error.code, *error.sentences())
    return as_json if ctx.meta[AS_JSON] else click.ClickException(redacted(str(error)))


@click.group(name="lakehouse", cls=LakehouseGroup)
@env_option
def lakehouse() -> None:
    """Look at the lakehouse, and mend it.

    Only `changes`, `rebuild`, `rollback`, `tag`, `branch`, `quarantine` (with --replay, or of a blocked
    batch), `sql --engine spark`, and `maintain` where something is due start Spark; only `rebuild`,
    `rollback`, `quarantine` and `drop` change what tables hold.
    """


@click.group()
def commands() -> None:
    """Commands that the package adds to Kedro."""


_LOOK: Final = (tables, sql, changes, snapshots, runs, logs, plugins, search, console)
_MEND: Final = (quarantine, tag, branch, rollback, rebuild, drop, maintain)
_SET_UP: Final = (init, import_config, deploy)
for command in (*_LOOK, *_MEND, *_SET_UP):
    lakehouse.add_command(command)
commands.add_command(lakehouse)
