"""A record's bytes as JSON text."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kedro_lakehouse.schema_registries.avro import AvroReader, Form
from kedro_lakehouse.schema_registries.base import UnknownSchemaError

if TYPE_CHECKING:
    from kedro_lakehouse.schema_registries.base import SchemaRegistry


@dataclass
class RecordReader:
    """Writes records as JSON text: those in Avro by the schema that each one names.

    A record is read by its writer's schema, never by another one: to read a decimal by a schema of another
    scale gives another number without an error.
    """

    registry: SchemaRegistry
    form: Form
    _readers: dict[str, AvroReader] = field(default_factory=dict)

    def text(self, raw: bytes | None) -> str | None:
        """A record's value as JSON; one that names no known schema, or does not fit it, is kept as base64.

        Raises:
            NoAnswerError: The registry does not answer.
        """
        if raw is None:
            return None
        found = self.registry.split(raw)
        reader = None if found is None else self._reader(found[0])
        if found is None or reader is None:
            return as_base64(raw)
        try:
            return reader.text(found[1], self.form)
        except (EOFError, ValueError, IndexError, OverflowError):
            return as_base64(raw)

    def key(self, raw: bytes | None) -> str | None:
        """A record's key, which may be in Avro or plain text."""
        if raw is None or self.registry.split(raw) is None:
            return plain_text(raw)
        return self.text(raw)

    def _reader(self, identity: str) -> AvroReader | None:
        if identity not in self._readers:
            try:
                self._readers[identity] = AvroReader(self.registry.schema(identity))
            except UnknownSchemaError:
                return None  # asked again for the next record: it may be registered by then
        return self._readers[identity]


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
