"""registries.yml: registries of schemas, which sources name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.config.base import Declaration, Name
from kedro_lakehouse.config.validation import validated
from kedro_lakehouse.errors import ConfigurationError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Mapping

FILE: Final = "registries.yml"


class RegistryConfig(Declaration):
    """A registry of schemas."""

    type: Name
    """Name of a plug-in: confluent or glue."""
    credentials: Name | None = None
    """Entry of credentials.yml: `username` and `password`; for Glue `aws_access_key_id` and
    `aws_secret_access_key`, by default what the AWS client finds by itself.
    """


class ConfluentRegistryConfig(RegistryConfig):
    """A registry with Confluent's interface, also Apicurio's and Karapace's compatible ones."""

    url: Name
    """Its address, with http or https."""


class GlueRegistryConfig(RegistryConfig):
    """The schema registry of AWS Glue."""

    region: Name | None = None
    """Its region; default: that of the AWS client."""
    endpoint: Name | None = None
    """Address of the service, where it is not AWS's own."""


def registry_config(
    raw: Mapping[str, Any], name: str, models: Mapping[str, type[RegistryConfig]]
) -> RegistryConfig:
    """The checked declaration of a registry.

    Raises:
        ConfigurationError: There is none of that name, its type is not known, or one of its keys is wrong.
    """
    declared = raw.get(name)
    if not isinstance(declared, dict):
        raise ConfigurationError(
            file=FILE,
            key=name,
            problem=f"there is no such registry.{did_you_mean(name, map(str, raw))}",
            remedy="Declare it there: its `type` and its `url` or `region`.",
        )
    kind = str(declared.get("type"))
    if kind not in models:
        raise ConfigurationError(
            file=FILE,
            key=f"{name}.type",
            problem=f"there is no such type of registry.{did_you_mean(kind, models)}",
            remedy=f"Write one of: {', '.join(sorted(models))}.",
        )
    return validated(models[kind], declared, FILE, name)
