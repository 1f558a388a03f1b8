"""Registries with Confluent's interface: also Apicurio's and Karapace's compatible ones.

Source:
    Confluent documentation: wire format; Schema Registry API reference.
"""

from __future__ import annotations

import base64
import json
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import quote

from kedro_lakehouse.config.registries import ConfluentRegistryConfig
from kedro_lakehouse.schema_registries.base import NoAnswerError, SchemaVersion, UnknownSchemaError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_MAGIC: Final = 0
_HEADER: Final = 5
_SECONDS: Final = 15
_NOT_FOUND: Final = 404


class ConfluentRegistry:
    """A record begins with a zero byte and the number of its schema in four bytes."""

    config_model: ClassVar[type[ConfluentRegistryConfig]] = ConfluentRegistryConfig

    def __init__(self, config: ConfluentRegistryConfig, credentials: Mapping[str, Any]) -> None:
        """Store the declaration; nothing is asked yet."""
        self.place = config.url.rstrip("/")
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json"}
        if credentials:
            user = f"{credentials.get('username', '')}:{credentials.get('password', '')}"
            self._headers["Authorization"] = f"Basic {base64.b64encode(user.encode()).decode()}"

    def split(self, raw: bytes) -> tuple[str, bytes] | None:
        """The number of the schema, and what follows it."""
        if len(raw) < _HEADER or raw[0] != _MAGIC:
            return None
        return str(int.from_bytes(raw[1:_HEADER], "big")), raw[_HEADER:]

    def schema(self, identity: str) -> str:
        """The text of a schema."""
        found = self._get(f"schemas/ids/{identity}")
        if found is None or not _is_avro(found):
            raise UnknownSchemaError(identity)
        return str(found["schema"])

    def subject(self, identity: str, preferred: Sequence[str]) -> tuple[str, int] | None:
        """The subject of a schema, and its version there."""
        listed = self._get(f"schemas/ids/{identity}/versions?deleted=true")
        if listed is None:  # a registry that cannot be asked so, or a schema that is in no subject
            return self._among(identity, preferred)
        order = {name: place for place, name in enumerate(preferred)}
        found = [(one["subject"], int(one["version"])) for one in listed]
        return min(found, key=lambda one: (order.get(one[0], len(order)), one), default=None)

    def _among(self, identity: str, subjects: Sequence[str]) -> tuple[str, int] | None:
        for subject in subjects:
            for one in self._numbers(subject):
                version = self._version(subject, one)
                if version is not None and version.identity == identity:
                    return subject, one
        return None

    def versions(self, subject: str, until: int, known: Collection[int]) -> list[SchemaVersion]:
        """The versions of a subject up to one of them."""
        wanted = [one for one in self._numbers(subject) if one <= until and one not in known]
        found = (self._version(subject, one) for one in wanted)
        return [version for version in found if version is not None]

    def _numbers(self, subject: str) -> list[int]:
        found = self._get(f"subjects/{quote(subject, safe='')}/versions?deleted=true")
        return sorted(map(int, found or ()))

    def _version(self, subject: str, number: int) -> SchemaVersion | None:
        found = self._get(f"subjects/{quote(subject, safe='')}/versions/{number}?deleted=true")
        if found is None or not _is_avro(found):
            return None
        return SchemaVersion(number=number, identity=str(found["id"]), text=str(found["schema"]))

    def _get(self, path: str) -> Any:
        """The answer to a question; None where the registry has no such thing."""
        asked = urllib.request.Request(f"{self.place}/{path}", headers=self._headers)  # noqa: S310
        try:
            with urllib.request.urlopen(asked, timeout=_SECONDS) as answer:  # noqa: S310 - the config's address
                return json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == _NOT_FOUND:
                return None
            raise NoAnswerError(f"it answers {error.code} {error.reason}") from error
        except (OSError, ValueError) as error:
            raise NoAnswerError(str(getattr(error, "reason", error))) from error


def _is_avro(found: Mapping[str, Any]) -> bool:
    return str(found.get("schemaType", "AVRO")) == "AVRO"
