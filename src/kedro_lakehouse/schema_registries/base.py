"""The interface of a schema registry."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from kedro_lakehouse.config.registries import RegistryConfig


Part = Literal["key", "value"]
"""The part of a record that names a schema."""


class UnknownSchemaError(Exception):
    """The registry answers that it has no such schema: the record that names it is poison."""


class NoAnswerError(Exception):
    """The registry does not answer, or refuses the question: what it says."""


@dataclass(frozen=True, kw_only=True)
class SchemaVersion:
    """A version of a subject: its number there, the identity that records name, and its text."""

    number: int
    identity: str
    text: str


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

    def subject(self, identity: str, preferred: Sequence[str]) -> tuple[str, int] | None:
        """The subject of a schema and its version there; None if the registry lists it in no subject.

        Versions that were deleted count, as far as the registry still tells them.

        Args:
            preferred: Names of subjects, the likeliest first: a schema may belong to several.

        Raises:
            NoAnswerError: The registry does not answer, or refuses.
        """

    def versions(self, subject: str, until: int, known: Collection[int]) -> list[SchemaVersion]:
        """The versions of a subject up to ``until``, without those whose numbers are ``known``.

        Raises:
            NoAnswerError: The registry does not answer, or refuses.
        """
