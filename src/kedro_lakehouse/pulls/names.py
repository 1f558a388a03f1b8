"""Names of landed files: they tell the end of the window, the number of the pull, and its attempt.

So a file can be ordered among others, and a ledger's row tells what was pulled, also without its manifest.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final, NamedTuple

_TIME: Final = "%Y%m%dT%H%M%S%fZ"
_NO_TIME: Final = "none"
_NAME: Final = re.compile(r"(none|\d{8}T\d{12}Z)-(\d{6,})-[0-9a-f]+\.(?:parquet|json)")


class FileName(NamedTuple):
    """What a landed file's name tells."""

    to: datetime | None
    number: int


def file_name(to: str | None, number: int, attempt: str, ending: str) -> str:
    """The name of a landed file.

    Example:
        >>> file_name("2024-01-31T06:00:00.5+00:00", 17, "ab12", "json")
        '20240131T060000500000Z-000017-ab12.json'
    """
    time = _NO_TIME if to is None else time_of(to).strftime(_TIME)
    return f"{time}-{number:06d}-{attempt}.{ending}"


def read_name(name: str) -> FileName | None:
    """What a file's name tells; None if it is not that of a pulled file.

    Example:
        >>> read_name("20240131T060000500000Z-000017-ab12.json").number
        17
    """
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    time = None if match[1] == _NO_TIME else datetime.strptime(match[1], _TIME).replace(tzinfo=UTC)
    return FileName(time, int(match[2]))


def time_of(text: str) -> datetime:
    """A time in ISO 8601, in UTC; one without a zone is in UTC."""
    time = datetime.fromisoformat(text)
    return time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)


def snapshot_id(to: str, number: int) -> str:
    """The id of a snapshot.

    Example:
        >>> snapshot_id("2024-01-31T06:00:00+00:00", 17)
        '20240131T060000Z-000017'
    """
    return f"{time_of(to):%Y%m%dT%H%M%SZ}-{number:06d}"
