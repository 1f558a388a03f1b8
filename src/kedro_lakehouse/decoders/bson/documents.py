"""Raw BSON as documents, and values as extended JSON; the driver is imported when the first one is read."""

from __future__ import annotations

from functools import cache
from typing import Any


@cache
def _options() -> Any:
    from bson.codec_options import CodecOptions, DatetimeConversion

    # A date before year 1 or after 9999 would be an error as a datetime: here all are milliseconds.
    return CodecOptions(document_class=dict, datetime_conversion=DatetimeConversion.DATETIME_MS)


def document_of(raw: bytes | None) -> dict[str, Any] | None:
    """A document of raw BSON; None for what is none."""
    import bson

    if raw is None:
        return None
    try:
        found: dict[str, Any] = bson.decode(raw, _options())
    except bson.errors.BSONError:
        return None
    return found


def extended_json(value: Any) -> str:
    """A value as canonical extended JSON, which keeps its kind."""
    from bson import json_util

    return str(json_util.dumps(value, json_options=json_util.CANONICAL_JSON_OPTIONS))


def relaxed_json(value: Any) -> str:
    """A value as relaxed extended JSON, in which numbers and text are JSON's own."""
    from bson import json_util

    return str(json_util.dumps(value, json_options=json_util.RELAXED_JSON_OPTIONS))
