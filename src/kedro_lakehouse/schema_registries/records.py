"""A record's bytes as JSON text."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kedro_lakehouse.schema_registries.avro import AvroReader, Form
from kedro_lakehouse.schema_registries.base import UnknownSchemaError

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    _unknown: set[str] = field(default_factory=set)

    def texts(self, raws: Sequence[bytes | None]) -> list[str | None]:
        """The values of records as JSON; a schema that the registry lacks is asked for once.

        Raises:
            NoAnswerError: The registry does not answer.
        """
        self._unknown.clear()  # it may be registered by now
        return [self._text(raw) for raw in raws]

    def text(self, raw: bytes | None) -> str | None:
        """A record's value as JSON; one that names no known schema, or does not fit it, is kept as base64."""
        return self.texts([raw])[0]

    def keys(self, raws: Sequence[bytes | None]) -> list[str | None]:
        """The keys of records, which may be in Avro or plain text."""
        self._unknown.clear()
        return [
            plain_text(raw) if raw is None or self.registry.split(raw) is None else self._text(raw)
            for raw in raws
        ]

    def key(self, raw: bytes | None) -> str | None:
        """A record's key."""
        return self.keys([raw])[0]

    def _text(self, raw: bytes | None) -> str | None:
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

    def _reader(self, identity: str) -> AvroReader | None:
        if identity in self._unknown:
            return None
        if identity not in self._readers:
            try:
                self._readers[identity] = AvroReader(self.registry.schema(identity))
            except (UnknownSchemaError, ValueError):  # there is none, or it is no schema
                self._unknown.add(identity)
                return None
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
