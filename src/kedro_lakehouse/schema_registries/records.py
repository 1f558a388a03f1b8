"""A record's bytes as JSON text."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kedro_lakehouse.names import UNFIT
from kedro_lakehouse.schema_registries.avro import AvroReader, Form

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kedro_lakehouse.schema_registries.base import Part, SchemaRegistry


@dataclass
class RecordReader:
    """Writes records as JSON text: those in Avro by the schema that each one names.

    A record is read by its writer's schema, never by another one: to read a decimal by a schema of another
    scale gives another number without an error. The registry is not asked here: ``values`` and
    ``key_schemas`` are texts of schemas by their identities, ``refused`` identities of those that do not fit.
    """

    registry: SchemaRegistry
    form: Form
    values: Mapping[str, str]
    key_schemas: Mapping[str, str]
    refused: frozenset[tuple[Part, str]] = frozenset()
    _readers: dict[str, AvroReader | None] = field(default_factory=dict)

    def text(self, raw: bytes | None, key: bytes | None = None) -> str | None:
        """A record's value as JSON; one that names no known schema, or does not fit it, is kept as base64.

        So is a value whose schema, or that of its key, is refused: after the identity of this schema.
        """
        unfit = self._refused("value", raw) or self._refused("key", key)
        if raw is not None and unfit is not None:
            return f"{UNFIT}{unfit} {as_base64(raw)}"
        return self._text(raw, self.values)

    def key(self, raw: bytes | None) -> str | None:
        """A record's key, which may be in Avro or plain text."""
        if raw is None or self.registry.split(raw) is None:
            return plain_text(raw)
        return self._text(raw, self.key_schemas)

    def _refused(self, part: Part, raw: bytes | None) -> str | None:
        found = None if raw is None or not self.refused else self.registry.split(raw)
        return found[0] if found is not None and (part, found[0]) in self.refused else None

    def _text(self, raw: bytes | None, schemas: Mapping[str, str]) -> str | None:
        if raw is None:
            return None
        found = self.registry.split(raw)
        reader = None if found is None or found[0] not in schemas else self._reader(schemas[found[0]])
        if found is None or reader is None:
            return as_base64(raw)
        try:
            return reader.text(found[1], self.form)
        except (EOFError, ValueError, IndexError, OverflowError):
            return as_base64(raw)

    def _reader(self, schema: str) -> AvroReader | None:
        """A reader by a schema; None if the text is no schema of Avro."""
        if schema not in self._readers:
            try:
                self._readers[schema] = AvroReader(schema)
            except ValueError:
                self._readers[schema] = None
        return self._readers[schema]


def named_by(registry: SchemaRegistry, part: Part, raws: Iterable[bytes | None]) -> set[tuple[Part, str]]:
    """The schemas that the keys or the values of records name."""
    found = (registry.split(raw) for raw in raws if raw is not None)
    return {(part, one[0]) for one in found if one is not None}


def plain_text(raw: bytes | None) -> str | None:
    """Bytes as text; what is no text is kept as base64, which no decoder takes for a record."""
    if raw is None:
        return None
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return as_base64(raw)


def as_base64(raw: bytes) -> str:
    """Bytes that are no record."""
    return f"base64:{base64.b64encode(raw).decode()}"
