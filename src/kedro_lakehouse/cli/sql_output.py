"""How ``kedro lakehouse sql`` shows an answer: as a table, row by row, or as csv, JSON or parquet."""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final, Literal, get_args

import click

from kedro_lakehouse.cli.show import objects, print_json, print_table, printable, say_cut, text
from kedro_lakehouse.names import is_reserved_column

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from kedro_lakehouse.query.answer import Answer

Output = Literal["table", "vertical", "csv", "json", "parquet"]
OUTPUTS: Final[tuple[Output, ...]] = get_args(Output)
Exported = Literal["csv", "parquet"]
EXPORTS: Final[tuple[Exported, ...]] = get_args(Exported)
"""The outputs that are whole unless ``--limit`` is given, and are written batch by batch."""
_CHOOSES_COLUMNS: Final = re.compile(r"\bcolumns\s*\(", re.IGNORECASE)


def hidden_columns(names: Sequence[str], query: str) -> list[str]:
    """The framework's own columns of an answer, such as ``_order``, that the query does not name.

    None is hidden if nothing else were left, as of a quarantine, or if the query chooses columns by
    ``columns(...)``.

    Example:
        >>> hidden_columns(["id", "_batch", "_order"], "select * from shop.item where _batch = 3")
        ['_order']
    """
    words = {word.lower() for word in re.findall(r"\w+", query)}
    own = [name for name in names if name.startswith("_") and is_reserved_column(name)]
    hidden = [name for name in own if name.lower() not in words]
    if all(name.startswith("_") for name in names) or _CHOOSES_COLUMNS.search(query):
        return []
    return hidden


def without_columns(answer: Answer, hidden: Sequence[str]) -> Answer:
    """The answer without some of its columns."""
    kept = [place for place, name in enumerate(answer.columns) if name not in hidden]
    columns = [answer.columns[place] for place in kept]
    return replace(answer, columns=columns, rows=[[row[place] for place in kept] for row in answer.rows])


def print_answer(answer: Answer, output: Output) -> None:
    """Print an answer as a table, row by row, or as JSON."""
    if output == "json":
        print_json(objects(answer.columns, answer.rows))
    elif output == "vertical":
        _print_vertically(answer)
    else:
        cells = [["NULL" if value is None else value for value in row] for row in answer.rows]
        print_table(answer.columns, cells, right=answer.numbers)
    if not answer.rows and output != "json":
        click.echo("(no rows)")
    if answer.cut:
        say_cut(len(answer.rows))


def say_hidden(hidden: Sequence[str]) -> None:
    """Tell, beside the output, which columns were left out."""
    if hidden:
        names = ", ".join(map(printable, hidden))
        click.echo(f"Hidden: {names}; --all-columns shows them, or name them.", err=True)


def _print_vertically(answer: Answer) -> None:
    from rich.cells import cell_len

    names = [printable(name) for name in answer.columns]
    width = max(map(cell_len, names), default=0)
    for number, row in enumerate(answer.rows, start=1):
        click.echo(f"-[ row {number} ]-".ljust(width + 20, "-"))
        for name, value in zip(names, row, strict=True):
            shown = "NULL" if value is None else text(value)
            click.echo(f"{name}{' ' * (width - cell_len(name))}  {shown}")


@contextmanager
def opened_target(kind: Output, to: str | None) -> Iterator[IO[bytes]]:
    """The file that an answer is written to, which only its owner can read; else the standard output.

    A file of which only a part could be written does not stay.

    Raises:
        click.UsageError: The file is there already, or parquet would go to a terminal.
    """
    if to is None:
        if kind == "parquet" and sys.stdout.isatty():
            raise click.UsageError("Parquet is no text for a terminal: add --to FILE, or a pipe.")
        yield sys.stdout.buffer
        return
    from kedro_lakehouse.private import private_file

    path = Path(to)
    if path.exists() or path.is_symlink():
        raise click.UsageError(f"{to} is there already: give another name.")
    if not path.parent.is_dir():
        raise click.UsageError(f"There is no folder {path.parent}.")
    try:
        with private_file(path).open("wb") as file:
            yield file
    except BaseException:
        path.unlink(missing_ok=True)
        raise


def write_batches(
    batches: pa.RecordBatchReader,
    file: IO[bytes],
    kind: Exported,
    *,
    hidden: Sequence[str],
    limit: int | None,
) -> None:
    """Write the first rows of an answer to an open file, but for hidden columns; tell if there are more."""
    import pyarrow as pa

    from kedro_lakehouse.query.results import write_result

    names = list(batches.schema.names)
    kept = [place for place, name in enumerate(names) if name not in hidden]
    schema, cut = pa.schema([batches.schema.field(place) for place in kept]), False

    def shown() -> Iterator[pa.RecordBatch]:
        nonlocal cut
        left = limit
        for batch in batches:
            if left is not None and batch.num_rows > left:
                cut, batch = True, batch.slice(0, left)  # noqa: PLW2901 - the last one
            yield pa.record_batch([batch.column(place) for place in kept], schema=schema)
            if left is not None:
                left -= batch.num_rows
            if cut:
                return

    rows = write_result(pa.RecordBatchReader.from_batches(schema, shown()), file, kind)
    if cut:
        say_cut(rows)
