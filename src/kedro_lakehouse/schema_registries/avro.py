"""Avro records as JSON: as Kafka Connect's converter writes them, or as plain rows.

Source:
    Apache Avro 1.12 specification; the schema properties ``connect.*`` that Kafka Connect's Avro converters
    write.
"""

from __future__ import annotations

import base64
import json
import math
from datetime import date, datetime, time
from decimal import Decimal
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final, Literal
from uuid import UUID

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Form = Literal["messages", "rows"]
"""How a record is written as JSON: as Kafka Connect does, with its schema, or as a plain row."""

_CONNECT: Final = "org.apache.kafka.connect.data."
_TYPES: Final = {
    "boolean": "boolean", "int": "int32", "long": "int64", "float": "float", "double": "double",
    "bytes": "bytes", "string": "string", "fixed": "bytes", "enum": "string",
}  # fmt: skip
_LOGICAL: Final = {
    "date": f"{_CONNECT}Date",
    "time-millis": f"{_CONNECT}Time",
    "timestamp-millis": f"{_CONNECT}Timestamp",
    "time-micros": "io.debezium.time.MicroTime",
    "timestamp-micros": "io.debezium.time.MicroTimestamp",
    "local-timestamp-millis": "io.debezium.time.Timestamp",
    "local-timestamp-micros": "io.debezium.time.MicroTimestamp",
}
"""The name of Kafka Connect's type for a logical type of Avro that has none of its own."""


class AvroReader:
    """Reads what was written with one schema."""

    def __init__(self, schema: str) -> None:
        """Parse the schema.

        Raises:
            ValueError: It is no schema of Avro.
        """
        from fastavro import parse_schema
        from fastavro.schema import SchemaParseException, UnknownType

        given = json.loads(schema)
        try:
            self._typed = parse_schema(given)
            self._plain = parse_schema(without_logical_types(given))
        except (SchemaParseException, UnknownType) as error:
            raise ValueError(str(error)) from error
        # Without blanks, as Kafka Connect writes it.
        self._connect = json.dumps(connect_schema(schema), ensure_ascii=False, separators=(",", ":"))

    def text(self, raw: bytes, form: Form) -> str:
        """A record as JSON.

        Raises:
            EOFError, ValueError, IndexError: These bytes were not written with this schema.
        """
        from fastavro import schemaless_reader

        source = BytesIO(raw)
        value = schemaless_reader(source, self._plain if form == "messages" else self._typed, None)
        if source.tell() != len(raw):
            raise ValueError("bytes follow the record")
        payload = _dumped(_as_json(value))
        return payload if form == "rows" else f'{{"schema":{self._connect},"payload":{payload}}}'


def _dumped(value: Any) -> str:
    """JSON text; a decimal is a number with all of its digits."""
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, dict):
        return "{" + ",".join(f"{_dumped(k)}:{_dumped(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_dumped, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def _as_json(value: Any) -> Any:  # noqa: PLR0911 - a table of cases
    """A value of Avro as one of JSON: bytes as base64, times as ISO 8601, what is no number as text."""
    if isinstance(value, dict):
        return {str(k): _as_json(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [_as_json(v) for v in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    return value


def without_logical_types(schema: Any) -> Any:
    """The schema by which numbers and bytes are read as they were written."""
    if isinstance(schema, list):
        return [without_logical_types(one) for one in schema]
    if isinstance(schema, dict):
        kept = {k: v for k, v in schema.items() if k != "logicalType"}
        for part in ("type", "items", "values"):
            if part in kept:
                kept[part] = without_logical_types(kept[part])
        if "fields" in kept:
            kept["fields"] = [without_logical_types(one) for one in kept["fields"]]
        return kept
    return schema


def connect_schema(text: str) -> dict[str, Any]:
    """A schema of Avro as Kafka Connect's JSON converter writes it."""
    return _Names().connect(json.loads(text))


class _Names:
    """Writes a schema of Avro as one of Kafka Connect; named types that occur again are written again."""

    def __init__(self) -> None:
        self._known: dict[str, Mapping[str, Any]] = {}

    def connect(self, schema: Any, space: str = "") -> dict[str, Any]:
        """The schema as Kafka Connect's JSON converter writes it."""
        if isinstance(schema, list):
            return self._union(schema, space)
        if isinstance(schema, str):
            return dict(self._of_name(schema, space))
        kind = schema["type"]
        if not isinstance(kind, str):  # a type within a type: {"type": {"type": "string"}}
            return self.connect(kind, space) | _semantics(schema)
        found: dict[str, Any] = {"type": _TYPES.get(kind, kind), "optional": False}
        if kind in ("record", "enum", "fixed"):
            name, space = _full(schema, space)
            found["name"] = name
            if kind == "fixed":
                del found["name"]
            self._known[name] = found
        if kind in ("record", "error"):
            found |= {"type": "struct", "fields": [self._field(one, space) for one in schema["fields"]]}
        elif kind == "array":
            found["items"] = self.connect(schema["items"], space)
        elif kind == "map":
            found |= {"keys": {"type": "string"}, "values": self.connect(schema["values"], space)}
        elif kind not in _TYPES:
            return dict(self._of_name(kind, space))
        found |= _semantics(schema)
        return found

    def _field(self, field: Mapping[str, Any], space: str) -> dict[str, Any]:
        return self.connect(field["type"], space) | {"field": field["name"]}

    def _union(self, parts: Sequence[Any], space: str) -> dict[str, Any]:
        """A type that may be null; of other unions the value is sent as it is, and stays text."""
        rest = [part for part in parts if part != "null"]
        found = [self.connect(part, space) for part in rest]
        only = found[0] if len(found) == 1 else {"type": "string"}
        return only | {"optional": "null" in parts}

    def _of_name(self, name: str, space: str) -> Mapping[str, Any]:
        if name in _TYPES:
            return {"type": _TYPES[name], "optional": False}
        return self._known.get(name) or self._known[f"{space}.{name}"]


def _full(schema: Mapping[str, Any], space: str) -> tuple[str, str]:
    """The full name of a named type, and the namespace of the names inside it."""
    name = str(schema["name"])
    inside = name.rpartition(".")[0] if "." in name else str(schema.get("namespace", space))
    return (name if "." in name or not inside else f"{inside}.{name}"), inside


def _semantics(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The name and the parameters of the meaning that a type has beside its plain type."""
    found: dict[str, Any] = {}
    logical = schema.get("logicalType")
    if logical == "decimal":
        found["name"] = f"{_CONNECT}Decimal"
        found["parameters"] = {
            "scale": str(schema.get("scale", 0)),
            "connect.decimal.precision": str(schema.get("precision")),
        }
    elif logical in _LOGICAL:
        found["name"] = _LOGICAL[logical]
    if "connect.name" in schema:
        found["name"] = schema["connect.name"]
    if "connect.parameters" in schema:
        found["parameters"] = {**found.get("parameters", {}), **schema["connect.parameters"]}
    if "connect.type" in schema:
        found["type"] = schema["connect.type"]
    return found
