"""Declarations of monitoring.yml: who is notified of a run, and where its metrics and lineage go."""

from __future__ import annotations

import re
from collections.abc import Mapping  # noqa: TC003 - pydantic reads it at run time
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, Self, get_args

from pydantic import AfterValidator, Field, model_validator

from kedro_lakehouse.config.addresses import Address  # noqa: TC001 - pydantic reads it at run time
from kedro_lakehouse.config.base import Declaration, Name, Names, refuse
from kedro_lakehouse.config.history import Duration  # noqa: TC001 - the same
from kedro_lakehouse.config.loading import entries, of_type, refuse_undeclared
from kedro_lakehouse.config.validation import validated

if TYPE_CHECKING:
    from collections.abc import Collection
    from datetime import timedelta

MONITORING_FILE: Final = "monitoring.yml"

NotifierKind = Literal["failure", "recovery", "staleness", "quarantine", "discovery"]
_TOPIC = re.compile(r"arn:[a-z-]+:sns:[a-z0-9-]+:\d{12}:[A-Za-z0-9_-]+(?:\.fifo)?")


def _topic(arn: str) -> str:
    if not _TOPIC.fullmatch(arn):
        raise refuse(
            "the text is not the ARN of a topic",
            "Write for example arn:aws:sns:eu-west-1:123456789012:alerts.",
        )
    return arn


class NotifierConfig(Declaration):
    """A notifier of any type; the model of a plug-in's notifier inherits from it."""

    type: Name
    """Kind of notifier: a name that `kedro lakehouse plugins` lists."""
    kinds: tuple[NotifierKind, ...] = Field(get_args(NotifierKind), min_length=1)
    """What it reports; default: everything."""
    timeout: float = Field(10, gt=0)
    """Seconds after which it is given up, until the next run."""


class EmailConfig(NotifierConfig):
    """Mails over SMTP."""

    host: Name
    """The mail server."""
    port: int = Field(587, ge=1, le=65535)
    """Its port."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """How the connection is encrypted: after `STARTTLS`, from its start, or not at all."""
    from_: Name = Field(alias="from")
    """Address of the sender."""
    to: Names = Field(min_length=1)
    """Addresses of the receivers."""
    credentials: Name | None = None
    """Entry of credentials.yml with `username` and `password`; default: no log-in."""

    @model_validator(mode="after")
    def _no_password_in_clear(self) -> Self:
        if self.security == "none" and self.credentials is not None:
            raise refuse("a password would be sent unencrypted", "Use 'starttls' or 'tls'.", key="security")
        return self


class WebhookConfig(NotifierConfig):
    """A JSON document, sent by HTTP POST."""

    url: Address | None = None
    """Where it is sent, unless the credentials say it."""
    credentials: Name | None = None
    """Entry of credentials.yml with `url` (where the address itself is secret) or `token` (sent as a bearer
    token).
    """

    @model_validator(mode="after")
    def _has_an_address(self) -> Self:
        if self.url is None and self.credentials is None:
            raise refuse("the address is missing", "Write `url`, or `credentials` with an url.", key="url")
        return self


class SnsConfig(NotifierConfig):
    """A message to an Amazon SNS topic."""

    topic: Annotated[Name, AfterValidator(_topic)]
    """ARN of the topic."""
    endpoint: Address | None = None
    """Address of the service, where it is not AWS's own."""
    credentials: Name | None = None
    """Entry of credentials.yml with `aws_access_key_id` and `aws_secret_access_key`; default: what the AWS
    client finds by itself.
    """


class MetricsConfig(Declaration):
    """A file of metrics for the textfile collector of Prometheus's node exporter."""

    path: Annotated[str, Field(pattern=r"\.prom\z")]
    """The file, ending in `.prom`; its folder must be there."""


class LineageConfig(Declaration):
    """Where OpenLineage events go: exactly one of ``file`` and ``url``."""

    namespace: Name = "kedro-lakehouse"
    """Namespace of the jobs."""
    file: Name | None = None
    """File to which each event is added as a line of JSON."""
    url: Address | None = None
    """Server that takes the events, such as Marquez."""
    endpoint: Name = "api/v1/lineage"
    """Path below the server's address."""
    timeout: float = Field(5, gt=0)
    """Seconds that one request may take."""
    credentials: Name | None = None
    """Entry of credentials.yml with `api_key`."""

    @model_validator(mode="after")
    def _one_transport(self) -> Self:
        if (self.file is None) == (self.url is None):
            raise refuse("exactly one of 'file' and 'url' is needed", "Give one of them.", key="file")
        return self


class MonitoringConfig(Declaration):
    """All of monitoring.yml; where a key is absent, nothing of it happens."""

    stale_after: Mapping[Name, Duration] = {}
    """How old a table's last commit may become, by table; `default` is for all others, and without it they
    may be of any age.
    """
    notifiers: Mapping[Name, NotifierConfig] = {}
    """Who is notified, under names of your choice."""
    metrics: MetricsConfig | None = None
    """The file of metrics."""
    lineage: LineageConfig | None = None
    """Where lineage goes."""
    report: Name | None = None
    """Catalog entry that keeps a page about each run, such as `ops.run_report`."""


def oldest_allowed(limits: Mapping[str, timedelta], table: str) -> timedelta | None:
    """How old a table's last commit may become by ``stale_after``; None if it may be of any age."""
    return limits.get(table, limits.get("default"))


def load_monitoring(
    raw: Mapping[str, Any], tables: Collection[str], notifier_models: Mapping[str, type[NotifierConfig]]
) -> MonitoringConfig:
    """Return the checked content of a merged monitoring.yml; a key whose value is None counts as not written.

    Args:
        raw: What the file says, merged over the environments.
        tables: The names of the declared tables.
        notifier_models: The model of each known type of notifier.

    Raises:
        ConfigurationError: Something is wrong in the file; the first such key is named.
    """
    given = entries({"": raw}, MONITORING_FILE)[""]
    notifiers = entries(given.pop("notifiers", {}), MONITORING_FILE)
    checked = {
        name: of_type(notifier_models, one, MONITORING_FILE, f"notifiers.{name}", what="notifier")
        for name, one in notifiers.items()
    }
    monitoring = validated(MonitoringConfig, given, MONITORING_FILE, "")
    named = [name for name in monitoring.stale_after if name != "default"]
    remedy = "Use `default` or a declared table."
    refuse_undeclared(named, tables, file=MONITORING_FILE, key="stale_after", remedy=remedy)
    return monitoring.model_copy(update={"notifiers": checked})
