"""A real HTTP server with an API of records: four ways of paging, four log-ins, and faults by chance."""

from __future__ import annotations

import base64
import contextlib
import json
import random
import threading
import time
from dataclasses import dataclass, field
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

from kedro_lakehouse.config.pulls import PullConfig
from kedro_lakehouse.config.rest import RestSourceConfig
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.names import TableName
from kedro_lakehouse.pulls.protocol import Pull
from kedro_lakehouse.pulls.rest.source import RestSource

SECRET = "kR7-9xQ2-horse-battery"
USER = "reader-of-parcels"
WHOLE = Pull(from_=None, to="2026-01-31T00:00:00Z")
CREDENTIALS = {
    "bearer": {"token": SECRET},
    "basic": {"username": USER, "password": SECRET},
    "api_key": {"key": SECRET},
    "oauth2": {"client_id": USER, "client_secret": SECRET},
}
PAGINGS = {
    "none": {"type": "none"},
    "page": {"type": "page"},
    "offset": {"type": "offset"},
    "cursor": {"type": "cursor", "next": "meta.next", "parameter": "after"},
    "link": {"type": "link"},
}


@dataclass
class RestApi:
    """What the server answers with, and what it was asked."""

    rows: Sequence[str]
    """Records as JSON, in the order of their keys."""
    paging: str = "cursor"
    auth: str = "none"
    size: int = 50
    fault_rate: float = 0.0
    """The share of requests that are answered 429, and as many 503."""
    seed: int = 0
    token_uses: int = 7
    """A token of OAuth 2 is refused after so many requests."""
    expires_in: int = 3600
    before_answer: Callable[[], None] = lambda: None
    answer: Callable[[str, dict[str, str]], tuple[int, dict[str, str], bytes] | None] = lambda _p, _q: None
    """An answer to a path and a query in place of the usual one."""
    now: float | None = None
    """The server's time; by default this machine's."""
    changed: Mapping[int, float] = field(default_factory=dict)
    """When each record was last changed: a query may ask for those ``since`` and ``before`` some seconds."""
    port: int = 0
    asked: list[tuple[str, str]] = field(default_factory=list)
    refused: int = 0
    tokens: int = 0
    _left: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.chance = random.Random(self.seed)  # noqa: S311 - not for secrets

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def fault(self) -> tuple[int, dict[str, str]] | None:
        """A fault, by chance: 429 with Retry-After as seconds or as a date, or 503."""
        drawn = self.chance.random()
        if drawn < self.fault_rate:
            later = {"Retry-After": self.chance.choice(["0", formatdate(time.time(), usegmt=True)])}
            return 429, later
        return (503, {}) if drawn < 2 * self.fault_rate else None

    def lets_in(self, headers: Any, query: dict[str, str]) -> bool:
        """Whether a request is logged in."""
        given = headers.get("Authorization", "")
        if self.auth == "bearer":
            return given == f"Bearer {SECRET}"
        if self.auth == "basic":
            return given == "Basic " + base64.b64encode(f"{USER}:{SECRET}".encode()).decode()
        if self.auth == "api_key":
            return query.pop("key", "") == SECRET
        if self.auth == "oauth2":
            token = given.removeprefix("Bearer ")
            self._left[token] = self._left.get(token, 0) - 1
            return self._left[token] >= 0
        return True

    def token(self, headers: Any, form: dict[str, str]) -> tuple[int, bytes]:
        """A token for the right client."""
        right = "Basic " + base64.b64encode(f"{USER}:{SECRET}".encode()).decode()
        in_form = (form.get("client_id"), form.get("client_secret")) == (USER, SECRET)
        if headers.get("Authorization") != right and not in_form:
            self.refused += 1
            return 401, b'{"error": "invalid_client"}'
        self.tokens += 1
        token = f"token-{self.seed}-{self.tokens}-of-{SECRET}"
        self._left[token] = self.token_uses
        return 200, json.dumps({"access_token": token, "expires_in": self.expires_in}).encode()

    def page(self, path: str, query: dict[str, str]) -> tuple[dict[str, str], bytes]:
        """A page of records, in the middle of an answer that tells where the next one is."""
        rows = [row for row in self.rows if self._is_within(json.loads(row)["id"], query)]
        begin = self._begin(query, rows)
        shown = rows if self.paging == "none" else rows[begin : begin + self.size]
        last = json.loads(shown[-1])["id"] if shown else None
        following = last if begin + self.size < len(rows) else None
        headers, meta = {}, {"total": len(rows)}
        if self.paging == "cursor":
            meta["next"] = following
        if self.paging == "link" and following is not None:
            headers["Link"] = (
                f'</first>; rel="first, prev", <{path}?after={following}&key={SECRET}>; rel="next"'
            )
        return headers, f'{{"data": {{"items": [{", ".join(shown)}]}}, "meta": {json.dumps(meta)}}}'.encode()

    def _is_within(self, number: int, query: dict[str, str]) -> bool:
        at = self.changed.get(number, 0.0)
        return float(query.get("since", at)) <= at < float(query.get("before", at + 1))

    def _begin(self, query: dict[str, str], rows: Sequence[str]) -> int:
        if self.paging == "page":
            return (int(query.get("page", "1")) - 1) * self.size
        if self.paging == "offset":
            return int(query.get("offset", "0"))
        after = int(query.get("after", "-1"))
        return sum(1 for row in rows if json.loads(row)["id"] <= after)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # head and body in one packet
    disable_nagle_algorithm = True
    api: RestApi

    def date_time_string(self, timestamp: float | None = None) -> str:
        return super().date_time_string(self.api.now if timestamp is None else timestamp)

    def log_message(self, *_: object) -> None:
        """Say nothing."""

    def do_HEAD(self) -> None:
        self._send(*self._answer(), with_body=False)

    def do_GET(self) -> None:
        self._send(*self._answer())

    def do_POST(self) -> None:
        form = dict(parse_qsl(self.rfile.read(int(self.headers["Content-Length"])).decode()))
        status, body = self.api.token(self.headers, form)
        self._send(status, {}, body)

    def _answer(self) -> tuple[int, dict[str, str], bytes]:
        parts = urlsplit(self.path)
        query = dict(parse_qsl(parts.query))
        self.api.asked.append((self.command, self.path))
        own = self.api.answer(parts.path, query)
        if own is not None:
            return own
        if fault := self.api.fault():
            return *fault, b'{"error": "try again"}'
        if not self.api.lets_in(self.headers, query):
            self.api.refused += 1
            return 401, {}, b'{"error": "who are you?"}'
        self.api.before_answer()
        return 200, *self.api.page(parts.path, query)

    def _send(self, status: int, headers: dict[str, str], body: bytes, *, with_body: bool = True) -> None:
        self.send_response(status)
        for name, value in {"Content-Type": "application/json", **headers}.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if with_body:
            self.wfile.write(body)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


@contextlib.contextmanager
def rest_api(api: RestApi) -> Iterator[RestApi]:
    """Serve an API on any port of this machine."""
    server = _Server(("127.0.0.1", 0), type("Handler", (_Handler,), {"api": api}))
    api.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield api
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def source_of(api, *, secrets=None, pull=None, **keys):
    """The source of the table ``parcels`` of an API; the paging is the server's."""
    auth = {"bearer": {}, "basic": {}, "api_key": {"name": "key", "in": "query"}, "none": None}
    auth["oauth2"] = {"token_url": f"{api.address}/token"}
    declared = {
        "type": "rest",
        "path": "landing",
        "base_url": f"{api.address}/v1",
        "records": "data.items",
        "paging": PAGINGS[api.paging],
        "stable": True,
    }
    if api.auth != "none":
        declared |= {"auth": {"type": api.auth, **auth[api.auth]}, "credentials": "api"}
    pull = PullConfig(**(pull or {}))
    table = TableConfig(source="logistics", entity="parcels", keys=("id",), pull=pull)
    held = CREDENTIALS.get(api.auth, {}) if secrets is None else secrets
    config = RestSourceConfig.model_validate({**declared, **keys})
    return RestSource(config, TableName("devices", "parcel"), table, held)
