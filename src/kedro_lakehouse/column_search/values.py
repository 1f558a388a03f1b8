"""Values as text, in one spelling whichever file or table they come from, and what they look like."""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

MAX_VALUE: Final = 120
"""A sampled value is cut to so many characters; its hash is of the whole."""
_MAX_FORMAT: Final = 24
_RUNS: Final = re.compile(r"9+|A+|a+|\s+")
_INTEGER: Final = re.compile(r"[+-]?\d{1,18}")
_NUMBER: Final = re.compile(r"[+-]?(?:(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")
_DATE: Final = re.compile(r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.]\d{4}")
_TIME: Final = re.compile(r"\d{1,2}:\d{2}(?::\d{2}(?:\.\d+)?)?(?:\s*(?:Z|[+-]\d{2}:?\d{2}))?", re.IGNORECASE)
_BOOLEANS: Final = frozenset({"true", "false"})
_SURE: Final = 0.95


def kind_of(dtype: pa.DataType) -> str:
    """The logical type of an Arrow type."""
    tests = (
        ("boolean", at.is_boolean),
        ("integer", at.is_integer),
        ("decimal", lambda t: at.is_floating(t) or at.is_decimal(t)),
        ("date", at.is_date),
        ("timestamp", at.is_timestamp),
        ("time", lambda t: at.is_time(t) or at.is_duration(t)),
        ("binary", lambda t: at.is_binary(t) or at.is_large_binary(t) or at.is_fixed_size_binary(t)),
        ("nested", at.is_nested),
        ("empty", at.is_null),
    )
    if at.is_dictionary(dtype):
        return kind_of(dtype.value_type)
    return next((kind for kind, test in tests if test(dtype)), "text")


def counted(column: pa.Array | pa.ChunkedArray) -> tuple[list[Any], list[int]]:
    """The distinct values of a column and how often each occurs; nulls and NaN are left out."""
    if at.is_nested(column.type):
        texts = [
            None if v is None else json.dumps(v, default=str, sort_keys=True) for v in column.to_pylist()
        ]
        column = pa.array(texts, pa.string())
    elif at.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    elif at.is_floating(column.type):
        column = column.filter(pc.is_finite(column))
    found = column.drop_null().value_counts()
    return found.field("values").to_pylist(), found.field("counts").to_pylist()


def as_texts(values: Iterable[Any], kind: str) -> list[str]:
    """Values as text: numbers without needless zeros, times in ISO 8601, text without outer blanks.

    Example:
        >>> as_texts([5.0, 0.25], "decimal"), as_texts([" a b "], "text")
        (['5', '0.25'], ['a b'])
    """
    if kind == "text":
        return [value.strip() for value in values]
    if kind == "decimal":
        return [number_text(str(value)) for value in values]
    if kind == "boolean":
        return [str(value).lower() for value in values]
    if kind in ("date", "timestamp", "time"):
        return [value.isoformat() if hasattr(value, "isoformat") else str(value) for value in values]
    return [str(value) for value in values]


def number_text(text: str) -> str:
    """A number without trailing zeros behind its point.

    Example:
        >>> number_text("12.500"), number_text("1E-7"), number_text("40")
        ('12.5', '1E-7', '40')
    """
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text.lower() else text


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
