"""What values look like: character classes, and the type that text stands for."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

_MAX_FORMAT: Final = 24
_RUNS: Final = re.compile(r"9+|A+|a+|\s+")
_INTEGER: Final = re.compile(r"[+-]?\d{1,18}")
_NUMBER: Final = re.compile(r"[+-]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_DATE: Final = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}")
_TIME: Final = re.compile(r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:\s*(?:Z|[+-]\d{2}:?\d{2}))?", re.IGNORECASE)
_BOOLEANS: Final = frozenset({"true", "false"})
_SURE: Final = 0.95


@lru_cache(maxsize=100_000)
def format_of(value: str) -> str:
    """The character classes of a value: A and a for letters, 9 for digits with the length of their run.

    No letter or digit of the value is in it.

    Example:
        >>> format_of("C3L-00032"), format_of("Not Hispanic"), format_of("ann@mail.org")
        ('A9A-9{5}', 'Aa Aa', 'a@a.a')
    """
    classes = "".join(map(_class, value.strip()))
    short = _RUNS.sub(lambda run: _run(run[0]), classes)
    return short if len(short) <= _MAX_FORMAT else short[:_MAX_FORMAT] + "~"


def _run(run: str) -> str:
    return f"9{{{len(run)}}}" if run[0] == "9" and len(run) > 1 else run[0]


def _class(char: str) -> str:
    if char.isdigit():
        return "9"
    if char.isalpha():
        return "A" if char.isupper() else "a"
    return char if char.isascii() and char.isprintable() else " " if char.isspace() else "?"


def number_of(text: str) -> float | None:
    """The number that a text stands for, if it stands for one."""
    return float(text.replace(",", "")) if _NUMBER.fullmatch(text) else None


def kind_of_text(values: Sequence[str]) -> str:
    """The type that nearly all of some texts stand for; ``text`` where they stand for none.

    Example:
        >>> kind_of_text(["1", "2"]), kind_of_text(["1.5", "2"]), kind_of_text(["2024-01-31"])
        ('integer', 'decimal', 'date')
    """
    if not values:
        return "empty"
    tests = (
        ("boolean", lambda v: v.lower() in _BOOLEANS),
        ("integer", _INTEGER.fullmatch),
        ("decimal", lambda v: number_of(v) is not None),
        ("date", _DATE.fullmatch),
        ("timestamp", _is_timestamp),
        ("time", _TIME.fullmatch),
    )
    for kind, test in tests:
        if sum(1 for value in values if test(value)) >= _SURE * len(values):
            return kind
    return "text"


def _is_timestamp(value: str) -> bool:
    day, _, hour = value.replace("T", " ").partition(" ")
    return bool(_DATE.fullmatch(day)) and (not hour or bool(_TIME.fullmatch(hour)))
