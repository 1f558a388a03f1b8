"""Conditions in Open SQL, and the short lines in which RFC_READ_TABLE takes them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.pulls.errors import TerminalFault

if TYPE_CHECKING:
    from collections.abc import Iterator

LINE: Final = 71
"""A line has 72 characters; the last one stays blank, as lines are put together without anything between."""
_TOKENS: Final = re.compile(r"'(?:[^']|'')*'|[^\s']+|\s+")


def literal(value: str) -> str:
    """A text as a literal.

    Example:
        >>> literal("O'Neill")
        "'O''Neill'"
    """
    return "'" + (value.replace("'", "''") or " ") + "'"


def between(field: str, first: str, last: str) -> str:
    """The condition that a field has one of the values from the first to the last."""
    return f"{field} BETWEEN {literal(first)} AND {literal(last)}"


def both(*conditions: str) -> str:
    """The condition that all conditions are met; empty ones always are."""
    parts = [one for one in conditions if one.strip()]
    return " AND ".join(f"( {one} )" for one in parts) if len(parts) > 1 else "".join(parts)


def lines(condition: str) -> list[str]:
    """A condition in lines of at most 71 characters, cut at blanks outside of quotes.

    Raises:
        TerminalFault: A quote is open, or a literal is longer than a line.

    Example:
        >>> lines("NAME = 'a b'")
        ["NAME = 'a b'"]
    """
    found: list[str] = []
    line = ""
    for word in _words(condition):
        if len(word) > LINE:
            raise TerminalFault(
                f"a word of the condition has {len(word)} characters, and a line takes {LINE}",
                "Shorten the text in `pull.where`.",
            )
        if len(line) + 1 + len(word) > LINE and line:
            found.append(line)
            line = word
        else:
            line = f"{line} {word}" if line else word
    return [*found, line] if line else found


def _words(condition: str) -> Iterator[str]:
    """The pieces between blanks that are in no quotes."""
    word, at = "", 0
    for match in _TOKENS.finditer(condition):
        if match.start() != at:
            break
        at = match.end()
        if match[0].isspace():
            if word:
                yield word
            word = ""
        else:
            word += match[0]
    if at != len(condition):
        raise TerminalFault("the condition has an open quote", "Close it in `pull.where`.")
    if word:
        yield word
