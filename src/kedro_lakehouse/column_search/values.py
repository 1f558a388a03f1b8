"""Values as text: one spelling, whichever file or table they come from."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_VALUE: Final = 120
"""A sampled value is cut to so many characters; its hash is of the whole."""


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
