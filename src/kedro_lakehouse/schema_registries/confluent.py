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

from kedro_lakehouse.config.registries import ConfluentRegistryConfig
from kedro_lakehouse.schema_registries.base import NoAnswerError, UnknownSchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping

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
        asked = urllib.request.Request(f"{self.place}/schemas/ids/{identity}", headers=self._headers)  # noqa: S310
        try:
            with urllib.request.urlopen(asked, timeout=_SECONDS) as answer:  # noqa: S310 - the config's address
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == _NOT_FOUND:
                raise UnknownSchemaError(identity) from error
            raise NoAnswerError(f"it answers {error.code} {error.reason}") from error
        except (OSError, ValueError) as error:
            raise NoAnswerError(str(getattr(error, "reason", error))) from error
        if found.get("schemaType", "AVRO") != "AVRO":
            raise UnknownSchemaError(identity)
        return str(found["schema"])
