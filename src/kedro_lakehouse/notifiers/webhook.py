"""A JSON document by HTTP POST."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, ClassVar, Final

from pydantic import TypeAdapter

from kedro_lakehouse.config.addresses import Address
from kedro_lakehouse.config.monitoring import NotifierConfig, WebhookConfig

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kedro_lakehouse.notifiers.base import Message

_ADDRESS: Final = TypeAdapter(Address)


class WebhookNotifier:
    """Posts each message to one address; any answer of 2xx counts as delivered."""

    config_model: ClassVar[type[NotifierConfig]] = WebhookConfig

    def __init__(self, config: WebhookConfig, credentials: Callable[[], Mapping[str, Any]]) -> None:
        """Keep both; no connection is opened."""
        self._config, self._credentials = config, credentials

    def send(self, message: Message) -> None:
        """Post a message.

        Raises:
            OSError: The server cannot be reached, or answers with an error.
            ValueError: The address in the credentials is neither http nor https.
        """
        from urllib.request import HTTPRedirectHandler, Request, build_opener

        class Refusing(HTTPRedirectHandler):
            """Follows no redirect: it would take the token to another server."""

            def redirect_request(self, *_: Any) -> None:
                """Make the redirect an error."""

        held = self._credentials() if self._config.credentials is not None else {}
        # Checked again, because it may be from the credentials: urllib would open files too.
        url = _ADDRESS.validate_python(self._config.url or held.get("url"))
        headers = {"Content-Type": "application/json"}
        if "token" in held:
            headers["Authorization"] = f"Bearer {held['token']}"
        body = json.dumps(message.as_json()).encode()
        request = Request(url, data=body, headers=headers, method="POST")  # noqa: S310 - checked above
        build_opener(Refusing).open(request, timeout=self._config.timeout).close()
