"""Everything that a request passes before the service looks at it: size, token, rate."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.service.problems import PROBLEM, Problem, unauthorized

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, MutableMapping

    from kedro_lakehouse.service.tokens import Tokens

    Scope = MutableMapping[str, Any]
    Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
    Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

OPEN: Final = "/health"
"""The one path that needs no token."""
LARGEST_BODY: Final = 256 * 1024
_LONGEST_PATH: Final = 2_000
_STRANGERS: Final = "?"


class Gate:
    """An ASGI application around another one, which sees only requests of a known role within its rate."""

    def __init__(self, app: Any, tokens: Tokens, rate: int) -> None:
        """Let nobody in yet."""
        self._app, self._tokens, self._rate = app, tokens, Rate(rate)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on with the role of its token in the scope."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":  # there are no web sockets here
            await send({"type": "websocket.close", "code": 1008})
            return
        try:
            scope["role"] = self._admitted(scope)
            body = await _whole_body(receive)
        except Problem as problem:
            await answer(problem, send)
            return
        await self._app(scope, _given(body, receive), send)

    def _admitted(self, scope: Scope) -> str | None:
        """The role of a request's token; None where no token is needed.

        Raises:
            Problem: It may not pass.
        """
        headers = [(name.lower(), value) for name, value in scope["headers"]]
        shown = [value for name, value in headers if name == b"authorization"]
        if len(scope.get("raw_path") or b"") > _LONGEST_PATH:
            raise Problem(400, "BAD_REQUEST", "The address is too long.")
        if scope["path"] == OPEN:
            return None
        role = self._tokens.role_of(shown[0].decode("latin-1")) if len(shown) == 1 else None
        if not self._rate.lets(role or _STRANGERS):
            raise Problem(429, "TOO_MANY_REQUESTS", "Ask less often.", {"Retry-After": "1"})
        if role is None:
            raise unauthorized()
        return role


class Rate:
    """So many requests a second of each role; what is not used is saved for one second."""

    def __init__(self, most: int) -> None:
        """Nobody has asked yet."""
        self._most = most
        self._left: dict[str, tuple[float, float]] = {}
        self._changing = threading.Lock()

    def lets(self, who: str) -> bool:
        """Whether one more request may pass now."""
        now = time.monotonic()
        with self._changing:
            left, since = self._left.get(who, (float(self._most), now))
            left = min(float(self._most), left + (now - since) * self._most)
            self._left[who] = max(left - 1, 0.0), now
            return left >= 1


async def answer(problem: Problem, send: Send) -> None:
    """Send a problem."""
    body = problem.body()
    headers = {"Content-Type": PROBLEM, "Content-Length": str(len(body))} | problem.headers
    raw = [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": problem.status, "headers": raw})
    await send({"type": "http.response.body", "body": body})


async def _whole_body(receive: Receive) -> bytes:
    """A request's body, of which no more than its limit is held."""
    found = b""
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return found
        found += bytes(message.get("body", b""))
        if len(found) > LARGEST_BODY:
            raise Problem(413, "TOO_LARGE", f"A request has at most {LARGEST_BODY:,} bytes.")
        if not message.get("more_body"):
            return found


def _given(body: bytes, receive: Receive) -> Receive:
    """A body that was read, as an application receives it; what comes after it is as it comes."""
    left = [{"type": "http.request", "body": body, "more_body": False}]

    async def given() -> MutableMapping[str, Any]:
        return left.pop() if left else await receive()

    return given
