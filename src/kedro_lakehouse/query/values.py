"""Values of rows in the types of JSON."""

from __future__ import annotations

import math
from datetime import date, datetime, time
from decimal import Decimal
from typing import Any

from kedro_lakehouse.redaction import redacted


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
