"""Values of rows in the types of JSON."""

from __future__ import annotations

import math
from datetime import date, datetime, time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from kedro_lakehouse.redaction import redacted

if TYPE_CHECKING:
    from collections.abc import Iterable


def unique_names(names: Iterable[str]) -> list[str]:
    """Names of columns, each once: of two with one name the second becomes ``name_1``, as in DuckDB."""
    found: list[str] = []
    for name in names:
        made, number = name, 0
        while made in found:
            number += 1
            made = f"{name}_{number}"
        found.append(made)
    return found


def plain(value: object) -> Any:
    """A value in JSON's own types: decimals as text, times as ISO 8601, bytes as hexadecimal digits.

    No text of it holds a secret that was fetched.
    """
    made: Any = redacted(str(value))
    match value:
        case None | bool() | int():
            made = value
        case float() if math.isfinite(value):
            made = value
        case Decimal():
            made = format(value, "f")
        case datetime() | date() | time():
            made = value.isoformat()
        case bytes():
            made = value.hex()
        case dict():
            made = {redacted(str(k)): plain(v) for k, v in value.items()}
        case list() | tuple():
            made = [plain(v) for v in value]
    return made
