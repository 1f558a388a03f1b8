"""How files of csv are written: what separates values, and what their first line says."""

from __future__ import annotations

import csv
import io
import re
import tempfile
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

UNNAMED: Final = ("row_name", "row_name_", "row_name__")
"""What a column is called whose header is empty."""
NUMBER: Final = r"^-?(?:0|[1-9]\d{0,14})(?:\.\d+)?(?:[eE][+-]?\d{1,3})?$"
_SNIFF: Final = "SELECT Delimiter, Quote, HasHeader FROM sniff_csv(?)"
_DELIMITERS: Final = (",", ";", "\t", "|")
_WIDTHS: Final = 50
"""Of so many lines it is counted how many values they have."""
_NEARLY: Final = 0.9


class UnreadFileError(ValueError):
    """A file that is not what its name says; its text says what was found."""


class Dialect(NamedTuple):
    """How a csv file is written."""

    delimiter: str
    quote: str
    header: bool


def dialect_of(head: str) -> Dialect:
    """What DuckDB's sniffer says of a text; a delimiter that is none is taken for a single column."""
    import duckdb

    with tempfile.NamedTemporaryFile("w", suffix=".csv", encoding="utf-8", newline="") as kept:
        kept.write(head)
        kept.flush()
        try:
            with duckdb.connect() as own:  # files are looked at by several threads
                delimiter, quote, header = own.execute(_SNIFF, [kept.name]).fetchall()[0]
        except duckdb.Error as error:
            raise UnreadFileError("it is no table of separated values") from error
    if delimiter not in head:
        if (most := _by_most_lines(head)) is not None:
            return most
        if (blank := _by_blanks(head)) is not None:
            return blank
    return Dialect(
        delimiter=delimiter if delimiter in _DELIMITERS else ",",
        quote=quote if len(quote) == 1 else '"',
        header=bool(header),
    )


def _by_most_lines(head: str) -> Dialect | None:
    """The dialect by which nearly all lines have as many values as the first one; a few may be broken."""
    for delimiter in _DELIMITERS:
        rows = [row for row in csv.reader(io.StringIO(head), delimiter=delimiter) if row]
        alike = sum(len(row) == len(rows[0]) for row in rows)
        if len(rows[0]) > 1 and alike >= _NEARLY * len(rows):
            return Dialect(delimiter=delimiter, quote='"', header=names_columns(rows[0]))
    return None


def _by_blanks(head: str) -> Dialect | None:
    """The dialect of lines whose values have one blank between them; None if they have not."""
    lines = [line.rstrip("\r") for line in head.split("\n")[:20] if line.strip()]
    counts = {line.count(" ") for line in lines}
    numbers = [re.fullmatch(NUMBER, part) is not None for part in lines[-1].split(" ")]
    if len(counts) > 1 or max(counts) < 1 or not any(numbers):
        return None
    header = not any(re.fullmatch(NUMBER, part) for part in lines[0].split(" "))
    return Dialect(delimiter=" ", quote='"', header=header and len(lines) > 1)


def _usual_width(head: str, dialect: Dialect) -> int:
    """How many values the lines after the first one have, most of them."""
    widths = [len(line) for line in _lines_below(head, dialect)]
    return max(set(widths), key=widths.count) if widths else 0


def _lines_below(head: str, dialect: Dialect) -> list[list[str]]:
    lines = csv.reader(io.StringIO(head), delimiter=dialect.delimiter, quotechar=dialect.quote)
    return [line for line in islice(lines, 1, _WIDTHS) if line]


def names_columns(first: Sequence[str]) -> bool:
    """Whether a first line is one of names, also where the sniffer sees only texts below it."""
    return any(first) and all(re.fullmatch(r"(?:[A-Za-z_][\w .#%()/-]*)?", name) for name in first)


def header_of(head: str, dialect: Dialect) -> tuple[list[str], dict[str, Any]]:
    """The names of the columns, and the options of `csv` in sources.yml by which they are read.

    A first line may have one name less than the others have values, as R writes it; or say something else,
    such as how many rows follow.
    """
    options: dict[str, Any] = {"delimiter": dialect.delimiter, "quote": dialect.quote}
    first = next(csv.reader(io.StringIO(head), delimiter=dialect.delimiter, quotechar=dialect.quote))
    header = dialect.header or names_columns(first)
    width = _usual_width(head, dialect)
    names = first if header else [f"column{number}" for number in range(1, len(first) + 1)]
    if width == len(first) + 1 and names_columns(first):  # R names no column of names of rows
        ended = not any(line[-1] for line in _lines_below(head, dialect))  # each by a delimiter
        names = [*first, f"column{width}"] if ended else [UNNAMED[0], *first]
        header, options["columns"] = True, names
    elif (width > len(first) or re.fullmatch(NUMBER, first[0])) and (header or width != len(first)):
        names = [f"column{number}" for number in range(1, width + 1)]  # the first line says something else
        header, options["columns"] = True, names
    if names.count("") == 1 and len(names) > 1:
        options["unnamed"] = next(name for name in UNNAMED if name not in names)
        names = [name or options["unnamed"] for name in names]
    return list(names), {**options, "header": header}
