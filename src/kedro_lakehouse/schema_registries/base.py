"""The interface of a schema registry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kedro_lakehouse.config.registries import RegistryConfig


class UnknownSchemaError(Exception):
    """The registry answers that it has no such schema: the record that names it is poison."""


class NoAnswerError(Exception):
    """The registry does not answer, or refuses the question: what it says."""


class SchemaRegistry(Protocol):
    """A registry of Avro schemas; register it in the entry-point group ``kedro_lakehouse.schema_registries``.

    It is sent to the machines that read records, so it must be picklable.
    """

    config_model: ClassVar[type[RegistryConfig]]
    place: str
    """Its address, for messages."""

    def __init__(self, config: Any, credentials: Mapping[str, Any]) -> None:
        """Store the declaration and the entry of credentials.yml; nothing is asked yet."""

    def split(self, raw: bytes) -> tuple[str, bytes] | None:
        """The identity of the schema that a record names, and what was written with it; None without one."""

    def schema(self, identity: str) -> str:
        """The text of a schema.

        Raises:
            UnknownSchemaError: The registry has no such schema.
            NoAnswerError: It does not answer, or refuses.
        """
