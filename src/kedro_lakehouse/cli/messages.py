"""What a command shows of an error: one message, or one JSON object."""

from __future__ import annotations

import json
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

from kedro_lakehouse.errors import LakehouseError, TerminalError
from kedro_lakehouse.ops.failures import known, quoted_path
from kedro_lakehouse.redaction import redacted

if TYPE_CHECKING:
    from kedro_lakehouse.project import Project


class FileGoneError(TerminalError):
    """A file that the lake's catalog names is not there."""

    code = "FILE_GONE"
    file: str
    summary = "The lake's catalog names a file that is not there: {file}."
    advice = (
        "Put it back from a copy; or move the whole folder of the lakehouse away, and `kedro run` builds it "
        "anew from the landed files."
    )


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


def shown(error: LakehouseError, *, as_json: bool = False) -> click.ClickException:
    """The error as click prints it: one message, and no traceback."""
    if not as_json:
        return click.ClickException(redacted(str(error)))
    message, remedy = error.sentences()
    if others := getattr(error, "others", ()):
        message = "\n".join([message, *(one.sentences()[0] for one in others)])
    return ErrorAsJson(error.code, message, remedy)


def error_of(error: Exception, project: Project | None) -> LakehouseError | None:
    """The error that says what to do, out of any error; None where nobody foresaw it."""
    if found := known(error, project.catalog.place if project else ""):
        return found
    if isinstance(error, FileNotFoundError) and (path := error.filename or quoted_path(error)):
        return FileGoneError(file=Path(str(path)).name)
    return None
