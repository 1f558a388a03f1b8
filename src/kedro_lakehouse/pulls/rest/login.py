"""How requests log in: by a fixed secret, or by a token of OAuth 2, fetched again before it expires."""

from __future__ import annotations

import base64
import time
from typing import TYPE_CHECKING, Any, Final, Protocol

from kedro_lakehouse.pulls.errors import TerminalFault
from kedro_lakehouse.redaction import keep_secret

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kedro_lakehouse.config.rest import RestAuth

    FetchToken = Callable[[str, Mapping[str, str], Mapping[str, str]], Mapping[str, Any]]
    """Post a form to an address with headers; returns the answer's object."""

_LEEWAY: Final = 0.1
"""A token is fetched anew when so much of its life is left."""


class LogIn(Protocol):
    """What a request needs to be let in."""

    def headers(self) -> Mapping[str, str]:
        """The headers that log in."""

    def parameters(self) -> Mapping[str, str]:
        """The parameters that log in."""

    def renew(self) -> bool:
        """After a refusal, whether the next request logs in otherwise than the one that was refused."""


class FixedLogIn:
    """Headers and parameters that stay the same; without any, requests do not log in."""

    def __init__(
        self, headers: Mapping[str, str] | None = None, parameters: Mapping[str, str] | None = None
    ) -> None:
        """Keep them."""
        self._headers, self._parameters = headers or {}, parameters or {}

    def headers(self) -> Mapping[str, str]:
        return self._headers

    def parameters(self) -> Mapping[str, str]:
        return self._parameters

    def renew(self) -> bool:
        return False


class TokenLogIn:
    """A token of OAuth 2, by the client's credentials.

    Source:
        RFC 6749, sections 2.3.1 and 4.4.
    """

    def __init__(self, auth: RestAuth, client: str, secret: str, fetch: FetchToken) -> None:
        """Fetch nothing yet."""
        self._auth, self._client, self._secret, self._fetch = auth, client, secret, fetch
        self._token: str | None = None
        self._until = 0.0
        self._is_fresh = False

    def headers(self) -> Mapping[str, str]:
        if self._token is None or time.monotonic() >= self._until:
            self._renew()
        else:
            self._is_fresh = False
        return {"Authorization": f"Bearer {self._token}"}

    def parameters(self) -> Mapping[str, str]:
        return {}

    def renew(self) -> bool:
        """A token that was just fetched is not fetched again: the client has no right."""
        if self._is_fresh:
            return False
        self._token = None
        return True

    def _renew(self) -> None:
        form = {"grant_type": "client_credentials"}
        if self._auth.scope is not None:
            form["scope"] = self._auth.scope
        headers: dict[str, str] = {}
        if self._auth.in_ == "body":
            form |= {"client_id": self._client, "client_secret": self._secret}
        else:
            headers["Authorization"] = _basic(self._client, self._secret)
        answer = self._fetch(str(self._auth.token_url), headers, form)
        token, life = answer.get("access_token"), answer.get("expires_in")
        if not isinstance(token, str) or not token:
            raise TerminalFault(
                "The address of tokens answers without an access_token", "Look into `token_url`."
            )
        seconds = float(life) if isinstance(life, int | float | str) and str(life).isdigit() else None
        keep_secret({"token": token})
        self._until = float("inf") if seconds is None else time.monotonic() + seconds * (1 - _LEEWAY)
        self._token, self._is_fresh = token, True


def log_in(auth: RestAuth | None, credentials: Mapping[str, Any], fetch: FetchToken) -> LogIn:
    """The log-in that is declared.

    Raises:
        TerminalFault: The credentials lack a secret; the text names its key.
    """
    if auth is None:
        return FixedLogIn()
    if auth.type == "bearer":
        return FixedLogIn({"Authorization": f"Bearer {_secret(credentials, 'token')}"})
    if auth.type == "basic":
        user, password = _secret(credentials, "username"), _secret(credentials, "password")
        return FixedLogIn({"Authorization": _basic(user, password)})
    if auth.type == "api_key":
        held = {auth.name: _secret(credentials, "key")}
        return FixedLogIn(parameters=held) if auth.in_ == "query" else FixedLogIn(headers=held)
    return TokenLogIn(auth, _secret(credentials, "client_id"), _secret(credentials, "client_secret"), fetch)


def _secret(credentials: Mapping[str, Any], key: str) -> str:
    held = credentials.get(key)
    if not isinstance(held, str | int) or held == "":
        raise TerminalFault(f"The source's credentials have no `{key}`", f"Add `{key}` to them.")
    return str(held)


def _basic(user: str, password: str) -> str:
    return "Basic " + base64.b64encode(f"{user}:{password}".encode()).decode()
