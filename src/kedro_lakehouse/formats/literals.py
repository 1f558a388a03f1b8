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
    name, number, source = parts_of_transform(text)
    return f"{name}({', '.join([*number, quote(source)])})" if name else quote(text)


def parts_of_transform(text: str) -> tuple[str, list[str], str]:
    """The name of a partition transform, its numbers and its column; a column alone has no name."""
    name, bracket, inner = text.partition("(")
    if not bracket:
        return "", [], text
    *numbers, source = [part.strip() for part in inner.rstrip(") ").split(",")]
    return name.strip(), numbers, source
