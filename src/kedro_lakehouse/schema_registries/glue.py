"""The schema registry of AWS Glue.

Source:
    AWS Glue documentation: schema registry; the header that its serializers write.
"""

from __future__ import annotations

import uuid
import zlib
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kedro_lakehouse.config.registries import GlueRegistryConfig
from kedro_lakehouse.schema_registries.base import NoAnswerError, SchemaVersion, UnknownSchemaError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

_VERSION: Final = 3
_PLAIN, _ZLIB = 0, 5
_HEADER: Final = 18
_AVAILABLE: Final = "AVAILABLE"


class GlueRegistry:
    """A record begins with the byte 3, one for its compression, and the 16 bytes of its schema's uuid."""

    config_model: ClassVar[type[GlueRegistryConfig]] = GlueRegistryConfig
    place: ClassVar[str] = "of AWS Glue"

    def __init__(self, config: GlueRegistryConfig, credentials: Mapping[str, Any]) -> None:
        """Store the declaration; nothing is asked yet."""
        self._config, self._credentials = config, dict(credentials)

    def split(self, raw: bytes) -> tuple[str, bytes] | None:
        """The uuid of the schema's version, and what follows it."""
        if len(raw) < _HEADER or raw[0] != _VERSION or raw[1] not in (_PLAIN, _ZLIB):
            return None
        body = raw[_HEADER:]
        if raw[1] == _ZLIB:
            try:
                body = zlib.decompress(body)
            except zlib.error:
                return None
        return str(uuid.UUID(bytes=raw[2:_HEADER])), body

    def schema(self, identity: str) -> str:
        """The text of a schema."""
        found = self._get(SchemaVersionId=identity)
        if found is None or not _is_avro(found):
            raise UnknownSchemaError(identity)
        return str(found["SchemaDefinition"])

    def subject(self, identity: str, preferred: Sequence[str]) -> tuple[str, int] | None:  # noqa: ARG002
        """The ARN of the schema that a version belongs to, and its number there."""
        found = self._get(SchemaVersionId=identity)
        return None if found is None else (str(found["SchemaArn"]), int(found["VersionNumber"]))

    def versions(self, subject: str, until: int, known: Collection[int]) -> list[SchemaVersion]:
        """The versions of a schema up to one of them: each is asked for, so that no list is needed."""
        found = []
        for number in range(1, until + 1):
            if number in known:
                continue
            one = self._get(SchemaId={"SchemaArn": subject}, SchemaVersionNumber={"VersionNumber": number})
            if one is not None and _is_avro(one) and one.get("Status", _AVAILABLE) == _AVAILABLE:
                identity, text = str(one["SchemaVersionId"]), str(one["SchemaDefinition"])
                found.append(SchemaVersion(number=number, identity=identity, text=text))
        return found

    def _get(self, **asked: Any) -> dict[str, Any] | None:
        """A version as Glue describes it; None if there is none."""
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            found: dict[str, Any] = self._client.get_schema_version(**asked)
        except ClientError as error:
            if error.response["Error"]["Code"] == "EntityNotFoundException":
                return None
            raise NoAnswerError(str(error)) from error
        except BotoCoreError as error:
            raise NoAnswerError(str(error)) from error
        return found

    @cached_property
    def _client(self) -> Any:
        import boto3

        return boto3.client(
            "glue",
            region_name=self._config.region,
            endpoint_url=self._config.endpoint,
            **self._credentials,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Without the client, which holds connections."""
        return {name: value for name, value in vars(self).items() if name != "_client"}


def _is_avro(found: Mapping[str, Any]) -> bool:
    return str(found.get("DataFormat", "AVRO")) == "AVRO"
