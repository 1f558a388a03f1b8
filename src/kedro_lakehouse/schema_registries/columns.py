"""The types of columns that the fields of an Avro record have, where records are rows."""

from __future__ import annotations

import json
from typing import Any, Final

from pyspark.sql import types as T

_PLAIN: Final[dict[str, T.DataType]] = {
    "boolean": T.BooleanType(),
    "int": T.IntegerType(),
    "long": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "bytes": T.BinaryType(),
    "fixed": T.BinaryType(),
}
_LOGICAL: Final[dict[tuple[str, str], T.DataType]] = {
    ("int", "date"): T.DateType(),
    ("long", "timestamp-millis"): T.TimestampType(),
    ("long", "timestamp-micros"): T.TimestampType(),
    ("long", "local-timestamp-millis"): T.TimestampNTZType(),
    ("long", "local-timestamp-micros"): T.TimestampNTZType(),
    ("int", "time-millis"): T.StringType(),
    ("long", "time-micros"): T.StringType(),
}
_DIGITS: Final = 38


def column_types(schema: str) -> dict[str, T.DataType]:
    """The types of a record's fields. Text where Spark has no such type, or where one would lose something.

    That is: records, arrays and maps as JSON, times of day, values of several types, larger decimals.
    """
    given = json.loads(schema)
    named = dict[str, Any]()
    if not isinstance(given, dict) or given.get("type") != "record":
        return {}
    return {str(field["name"]): _kind(field["type"], named) for field in given["fields"]}


def _kind(schema: Any, named: dict[str, Any]) -> T.DataType:
    if isinstance(schema, list):
        kinds = [_kind(part, named) for part in schema if part != "null"]
        return kinds[0] if len(kinds) == 1 else T.StringType()
    if isinstance(schema, str):
        return _PLAIN.get(schema) or named.get(schema.rpartition(".")[2], T.StringType())
    kind = schema["type"]
    if not isinstance(kind, str):
        return _kind(kind, named)
    logical = schema.get("logicalType")
    if logical == "decimal" and kind in ("bytes", "fixed"):
        found = _decimal(schema)
    else:
        found = _LOGICAL.get((kind, logical)) or _PLAIN.get(kind, T.StringType())
    if kind == "fixed":
        named[str(schema["name"]).rpartition(".")[2]] = found
    return found


def _decimal(schema: dict[str, Any]) -> T.DataType:
    precision, scale = int(schema["precision"]), int(schema.get("scale", 0))
    return T.DecimalType(precision, scale) if 0 <= scale <= precision <= _DIGITS else T.StringType()
