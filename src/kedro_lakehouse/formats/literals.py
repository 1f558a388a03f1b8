"""SQL text of values and partition transforms, for statements that take no parameters."""

from __future__ import annotations

from decimal import Decimal

from kedro_lakehouse.names import quote


def text(value: str) -> str:
    """Write a string as an SQL literal."""
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


def constant(value: int | str | Decimal) -> str:
    """Write a number or a string as an SQL literal, because Iceberg's DELETE takes no parameters."""
    if isinstance(value, str):
        return text(value)
    return f"{value:f}BD" if isinstance(value, Decimal) else str(value)


def transform(text: str) -> str:
    """Quote the column of a partition transform such as ``days(ts)`` or ``bucket(8, id)``."""
    name, bracket, inner = text.partition("(")
    if not bracket:
        return quote(text)
    *number, source = [part.strip() for part in inner.rstrip(") ").split(",")]
    return f"{name.strip()}({', '.join([*number, quote(source)])})"
