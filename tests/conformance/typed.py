"""Types of the cases' values: JSON tells few, so a column's type is the one that holds all its values."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
from model.values import MapValue

INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)")
_TIME = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?")
_LONG = 2**63
_ARROW = {
    "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(),
    "bigint": pa.int64(), "float": pa.float32(), "double": pa.float64(), "string": pa.string(),
    "date": pa.date32(), "timestamp": pa.timestamp("us", tz="UTC"), "timestamp_ntz": pa.timestamp("us"),
    "binary": pa.binary(),
}  # fmt: skip
_OTHER_NAMES = {
    "integer": "int", "long": "bigint", "short": "smallint", "byte": "tinyint", "real": "float",
    "timestamp_ltz": "timestamp", "bool": "boolean",
}  # fmt: skip


def type_of(values: Iterable[Any], *, instants: bool = False) -> str:
    """The Spark type that holds all values; a column of nulls is text.

    With ``instants``, text that is an ISO time with a zone is a timestamp.
    """
    kinds = {_type_of_one(v, instants=instants) for v in values if v is not None}
    if not kinds:
        return "string"
    if len(kinds) == 1:
        return kinds.pop()
    if kinds <= {"bigint", "double"}:
        return "double"
    if kinds <= {"bigint", "decimal(38,0)"}:
        return "decimal(38,0)"
    if kinds <= {"string", "timestamp"}:
        return "string"
    if all(k.startswith("struct<") for k in kinds):
        return _struct([v for v in values if v is not None])
    raise AssertionError(f"no type holds {sorted(kinds)}")


def _type_of_one(value: Any, *, instants: bool) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        return "bigint" if -_LONG <= value < _LONG else "decimal(38,0)"
    if isinstance(value, float):
        return "double"
    if isinstance(value, str):
        return "timestamp" if instants and INSTANT.fullmatch(value) else "string"
    if isinstance(value, list):
        return f"array<{type_of(value)}>"
    if isinstance(value, dict):
        return _struct([value])
    raise AssertionError(f"a case holds a {type(value).__name__}")


def _struct(values: list[dict[str, Any]]) -> str:
    names = dict.fromkeys(n for v in values for n in v)
    fields = ",".join(f"{n}:{type_of([v.get(n) for v in values])}" for n in names)
    return f"struct<{fields}>"


def plain_type(text: str) -> str:
    """A type's name as Spark writes it."""
    text = re.sub(r"\s", "", text)
    text = text if "<" in text else text.lower()  # names of fields keep their case
    return _OTHER_NAMES.get(text, text)


def parts(text: str) -> list[str]:
    """What stands between the brackets of a type, split at its own commas."""
    inner, found, depth = text[text.index("<") + 1 : -1], [""], 0
    for character in inner:
        depth += (character in "<(") - (character in ">)")
        if character == "," and not depth:
            found.append("")
        else:
            found[-1] += character
    return found


def arrow_type(text: str) -> pa.DataType:
    """The Arrow type of a Spark type."""
    text = plain_type(text)
    if text in _ARROW:
        return _ARROW[text]
    if decimal := re.fullmatch(r"decimal\((\d+),(\d+)\)", text):
        return pa.decimal128(int(decimal[1]), int(decimal[2]))
    if text.startswith("array<"):
        return pa.list_(arrow_type(parts(text)[0]))
    if text.startswith("map<"):
        key, value = parts(text)
        return pa.map_(arrow_type(key), arrow_type(value))
    if text.startswith("struct<"):
        fields = [p.partition(":") for p in parts(text)]
        return pa.struct([pa.field(name, arrow_type(kind)) for name, _, kind in fields])
    raise AssertionError(f"unknown type {text}")


def typed(value: Any, kind: str) -> Any:  # noqa: PLR0911 - one line a kind
    """A case's value as Python has values of this type: what the model takes and what tables give."""
    kind = plain_type(kind)
    if value is None:
        return None
    if kind.startswith("array<"):
        return [typed(v, parts(kind)[0]) for v in value]
    if kind.startswith("struct<"):
        fields = [p.partition(":") for p in parts(kind)]
        return {n: typed(value.get(n), k) for n, _, k in fields}
    if kind.startswith("map<"):
        pairs = value.items() if isinstance(value, Mapping) else value
        of_key, of_value = parts(kind)
        return MapValue({typed(k, of_key): typed(v, of_value) for k, v in pairs})
    if kind.startswith("decimal"):
        return Decimal(str(value))
    if kind in ("timestamp", "timestamp_ntz"):
        return time_of(value) if kind == "timestamp" else time_of(value).replace(tzinfo=None)
    if kind == "date":
        return value if isinstance(value, dt.date) else dt.date.fromisoformat(value)
    return float(value) if kind in ("double", "float") else value


def time_of(value: Any) -> dt.datetime:
    """An instant; without a zone it is UTC."""
    if isinstance(value, str):
        assert _TIME.fullmatch(value), "not a time"
        value = dt.datetime.fromisoformat(value)
    if not isinstance(value, dt.datetime):
        raise TypeError(f"{type(value).__name__} is not a time")
    return value if value.tzinfo else value.replace(tzinfo=dt.UTC)
