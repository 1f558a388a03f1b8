"""What the commands about persons share: how persons, or other values to look for, are given."""

from __future__ import annotations

import csv
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kedro_lakehouse.cli.completion import complete_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kedro_lakehouse.erasure.requests import Request

_Command = TypeVar("_Command", bound="Callable[..., Any] | click.Command")


def values_from_option(what: str) -> Callable[[_Command], _Command]:
    """The option that reads values from a file, so that none stands in the shell's history."""
    return click.option(
        "--values-from",
        metavar="FILE",
        help=f"Read {what} from a file, one a line; `-`: from standard input.",
    )


def subject_options(command: _Command) -> _Command:
    """Arguments and options of the commands that change what is stored of persons."""
    only_in = click.option(
        "--table",
        "tables",
        multiple=True,
        metavar="NAME",
        shell_complete=complete_tables,
        help="Only in this table; repeatable.",
    )
    subjects = click.argument("subjects", nargs=-1, metavar="[SUBJECT]...")
    asks = click.option("--yes", is_flag=True, help="Do not ask.")
    return subjects(values_from_option("subjects")(only_in(asks(command))))


def given(words: Sequence[str], file: str | None, what: str = "SUBJECT") -> list[str]:
    """The values given as words and in a file, without blanks around them.

    Raises:
        click.UsageError: There are none.
        click.BadParameter: The file cannot be read.
    """
    values = [value.strip() for value in [*words, *_lines_of(file, "--values-from")] if value.strip()]
    if not values:
        raise click.UsageError(f"Give a {what}, or --values-from FILE.")
    return values


def _lines_of(file: str | None, option: str) -> Sequence[str]:
    """The lines of the file that an option names, or of standard input; none where it names none."""
    if file is None:
        return ()
    if file == "-":
        return sys.stdin.read().splitlines()
    try:
        return Path(file).read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise click.BadParameter(f"{file} cannot be read as text.", param_hint=option) from error


def requests_of(file: str) -> list[Request]:
    """The requests of a CSV file with a header: the column ``subject``, and ``due`` where a time is known.

    Raises:
        click.BadParameter: The file cannot be read, lacks the column, or has a time that is none.
    """
    from kedro_lakehouse.erasure.requests import Request

    rows = csv.DictReader(_lines_of(file, "--requests"))
    if "subject" not in (rows.fieldnames or ()):
        raise click.BadParameter(
            f"{file} has no column `subject` in its first line: write `subject,due` there."
        )
    found = []
    for row in rows:
        subject, due = (row["subject"] or "").strip(), (row.get("due") or "").strip()
        try:
            at = datetime.fromisoformat(due) if due else None
        except ValueError as error:
            problem = (
                f"{file}, line {rows.line_num}: write `due` as 2026-12-31, or 2026-12-31 12:00:00 (UTC)."
            )
            raise click.BadParameter(problem) from error
        if subject:
            found.append(Request(subject=subject, due=at.replace(tzinfo=at.tzinfo or UTC) if at else None))
    return found
