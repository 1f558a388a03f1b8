"""Messages to an Amazon SNS topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Final

from kedro_lakehouse.aws import client
from kedro_lakehouse.config.monitoring import NotifierConfig, SnsConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kedro_lakehouse.notifiers.base import Message

_MAX_SUBJECT: Final = 100
_MAX_BYTES: Final = 256 * 1024
_SECRETS: Final = ("aws_access_key_id", "aws_secret_access_key", "aws_session_token")


class SnsNotifier:
    """Publishes each message to one topic; needs the extra ``aws``."""

    config_model: ClassVar[type[NotifierConfig]] = SnsConfig

    def __init__(self, config: SnsConfig, credentials: Callable[[], Mapping[str, Any]]) -> None:
        """Keep both; no client is made."""
        self._config, self._credentials = config, credentials

    def send(self, message: Message) -> None:
        """Publish a message; SNS takes 100 characters of ASCII as subject, and 256 KiB of text.

        Raises:
            UnsupportedError: boto3 is not installed.
            Exception: botocore's errors, which share no other base class.
        """
        config, held = self._config, self._credentials() if self._config.credentials is not None else {}
        sns = client(
            "sns",
            timeout=config.timeout,
            region=config.topic.split(":")[3],
            endpoint_url=config.endpoint,
            **{key: held[key] for key in _SECRETS if key in held},
        )
        text = message.text.encode()[:_MAX_BYTES].decode(errors="ignore")
        subject = message.subject.encode("ascii", "replace").decode()[:_MAX_SUBJECT]
        sns.publish(TopicArn=config.topic, Subject=subject, Message=text)
