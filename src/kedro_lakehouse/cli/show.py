"""Print rows for people (an aligned table) or for programs (JSON)."""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import click

from kedro_lakehouse.query.values import plain, unique_names

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

_PIPED_WIDTH: Final = 10_000  # a pipe has no edge: nothing is wrapped or cut
_BETWEEN: Final = 2
"""Blanks between two columns."""


def print_json(value: object) -> None:
    """Print a value as JSON, without loss: see ``plain``."""
    click.echo(json.dumps(plain(value), indent=2, ensure_ascii=False))


def print_table(
    headings: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    right: Collection[str] = (),
    whole: Collection[str] = (),
) -> None:
    """Print rows under their headings; where the terminal is too narrow, cells go on in the next line.

    ``right`` columns hold numbers; they and the ``whole`` columns keep each cell on one line.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    cells = [[text(cell) for cell in row] for row in rows]
    view = Table(box=None, pad_edge=False, padding=(0, _BETWEEN, 0, 0), header_style="bold")
    for number, heading in enumerate(map(printable, headings)):
        kept = [row[number] for row in cells] if heading in right or heading in whole else []
        view.add_column(
            Text(heading),
            justify="right" if heading in right else "left",
            overflow="fold",
            min_width=max(map(cell_len, [*kept, *heading.split()]), default=1),
        )
    for row in cells:
        view.add_row(*map(Text, row))
    console = Console(width=terminal_width())
    with console.capture() as capture:
        console.print(view, crop=False)
    click.echo("\n".join(line.rstrip() for line in capture.get().splitlines()))


def terminal_width() -> int:
    """The columns of the terminal that is printed to."""
    from rich.console import Console

    return Console().width if sys.stdout.isatty() else _PIPED_WIDTH


def fits(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> bool:
    """Whether the terminal is wide enough for each row to take one line."""
    from rich.cells import cell_len

    columns = zip(headings, *rows, strict=True)
    needed = sum(max(cell_len(text(cell)) for cell in column) + _BETWEEN for column in columns) - _BETWEEN
    return needed <= terminal_width()


def print_result(facts: object, message: str, *, as_json: bool) -> None:
    """Print what a command did: the facts as JSON, or the message about them."""
    if as_json:
        print_json(facts)
    else:
        click.echo(message)


def print_rows(  # noqa: PLR0913 - how rows may be shown
    rows: Sequence[dict[str, Any]],
    *,
    as_json: bool,
    nothing: str = "",
    limit: int = 0,
    cells: Callable[[dict[str, Any]], dict[str, object]] = dict,
    narrow: Callable[[dict[str, Any]], dict[str, object]] | None = None,
    right: Collection[str] = (),
    whole: Collection[str] = (),
) -> None:
    """Print the first rows as JSON, or a table of their ``cells`` by heading; else ``nothing``.

    ``narrow`` gives the cells on a terminal that is too narrow for ``cells``.
    """
    shown = rows[: limit or None]
    if as_json:
        print_json(shown)
    elif shown:
        headings, found = _table_of(shown, cells)
        if narrow is not None and not fits(headings, found):
            headings, found = _table_of(shown, narrow)
        print_table(headings, found, right=right, whole=whole)
    else:
        click.echo(nothing)
    if len(rows) > len(shown):
        say_cut(len(shown))


def _table_of(
    rows: Sequence[dict[str, Any]], cells: Callable[[dict[str, Any]], dict[str, object]]
) -> tuple[list[str], list[list[object]]]:
    """The headings and the cells of rows."""
    made = [cells(row) for row in rows]
    return list(made[0]), [list(row.values()) for row in made]


def say_cut(shown: int) -> None:
    """Tell, beside the output, that there are more rows than were printed."""
    click.echo(f"Only the first {shown} rows are shown; --limit 0 prints all.", err=True)


def text(value: object) -> str:
    """A value as one line of text: no control character of it reaches the terminal."""
    match value:
        case None:
            return ""
        case bool():
            return str(value).lower()
        case datetime():
            moment = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
            return moment.isoformat(sep=" ") + ("Z" if value.tzinfo else "")
        case Decimal():
            return format(value, "f")
        case dict() | list() | tuple():
            return printable(json.dumps(plain(value), ensure_ascii=False))
        case _:
            return printable(str(plain(value)))


def printable(word: str) -> str:
    """Escape what a terminal would obey: control characters, line ends, invisible marks."""
    if word.isprintable():
        return word
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in word)


def objects(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[Mapping[str, object]]:
    """Rows as objects; of two columns with one name the second becomes ``name_1``, as in DuckDB."""
    names = unique_names(columns)
    return [dict(zip(names, row, strict=True)) for row in rows]
