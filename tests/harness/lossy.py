"""AWS behind a line that loses answers and requests, resets, throttles, or lets a client wait."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import socket
import struct
import threading
from collections import Counter
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Fault = Literal["nothing", "request", "answer", "reset", "throttled", "unauthorised", "silence"]
"""What befalls a request. The request, or the answer to one that was applied, is lost; the connection is
reset; the service throttles, or does not know the caller; nobody answers until the test ends."""

WAYS: Final = ("request lost once", "answer lost once", "answer lost", "request lost")
_COMMIT: Final = "AWSGlue.UpdateTable"
_REFUSALS: Final[Mapping[str, tuple[int, str]]] = {
    "throttled": (503, "SlowDown"),
    "unauthorised": (403, "ExpiredToken"),
}


@dataclass(frozen=True)
class Request:
    """What a client asked for."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def target(self) -> str:
        """The operation, where the service names it in a header."""
        return self.headers.get("X-Amz-Target", "")


@dataclass(frozen=True)
class Answer:
    """What the service said to it."""

    status: int
    headers: tuple[tuple[str, str], ...]
    content: bytes


class Line(ThreadingHTTPServer):
    """Passes requests on to ``address``, and answers back, unless a fault befalls them."""

    daemon_threads = True

    def __init__(self, address: str) -> None:
        """Listen on a free port of this machine."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = urlsplit(address).netloc
        self.ended = threading.Event()

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"

    def fault(self, request: Request) -> Fault:
        """What befalls a request."""
        return "nothing"

    def pass_on(self, request: Request) -> Answer:
        """The answer of the service behind."""
        line = http.client.HTTPConnection(self.behind, timeout=120)
        line.request(request.method, request.path, request.body, dict(request.headers))
        found = line.getresponse()
        content = found.read()
        line.close()
        return Answer(found.status, tuple(found.getheaders()), content)


class LossyGlue(Line):
    """Every other commit meets the next of ``WAYS``, each time it comes.

    A commit is known by the metadata that it names.
    """

    def __init__(self, address: str) -> None:
        """Listen on a free port of this machine."""
        super().__init__(address)
        self.met: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._ways = itertools.cycle(word for way in WAYS for word in ("nothing lost", way))
        self._known: dict[str, tuple[str, int]] = {}

    def fault(self, request: Request) -> Fault:
        """What is lost of a request: nothing, the request or the answer."""
        if request.target != _COMMIT:
            return "nothing"
        commit = json.loads(request.body)["TableInput"]["Parameters"]["metadata_location"]
        with self._lock:
            way, tries = self._known.get(commit) or (next(self._ways), 0)
            self._known[commit] = way, tries + 1
            if tries and way.endswith("once"):
                return "nothing"
            self.met[way] += 1
            return cast("Fault", way.split()[0])


class FaultyS3(Line):
    """Every request whose method is in ``on`` meets the fault that the test has set at that moment.

    Requests of all such lines are passed on one by one: moto compares a tag and writes in two steps, S3 in
    one.
    """

    _passing = threading.Lock()

    def __init__(self, address: str) -> None:
        """Listen on a free port of this machine; nothing befalls a request yet."""
        super().__init__(address)
        self.faults: Fault = "nothing"
        self.on: frozenset[str] = frozenset({"PUT", "GET", "DELETE"})
        self.met: Counter[str] = Counter()
        self._changed = threading.Condition()

    def fault(self, request: Request) -> Fault:
        """What befalls a request now."""
        met = self.faults if request.method in self.on else "nothing"
        with self._changed:
            self.met[met] += 1
            self._changed.notify_all()
        return met

    def wait_for(self, what: Fault, more: int, *, at_most: float = 30) -> None:
        """Return when so many more requests have met a fault, or met nothing."""
        with self._changed:
            wanted = self.met[what] + more
            assert self._changed.wait_for(lambda: self.met[what] >= wanted, at_most), dict(self.met)

    def pass_on(self, request: Request) -> Answer:
        """The answer of S3."""
        with self._passing:
            return super().pass_on(request)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Line

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        request = Request(self.command, self.path, dict(self.headers), body)
        fault = self.server.fault(request)
        if fault in _REFUSALS:
            self._refuse(*_REFUSALS[fault])
            return
        if fault == "silence":
            self.server.ended.wait()
        elif fault == "reset":
            # A connection that is closed so, with nothing to linger for, is reset.
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif fault != "request":
            answer = self.server.pass_on(request)
            if fault == "nothing":
                self._answer(answer)
                return
        self.close_connection = True

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = _serve  # noqa: N815 - so the server asks for them

    def _refuse(self, status: int, code: str) -> None:
        content = f"<Error><Code>{code}</Code><Message>no</Message></Error>".encode()
        self._answer(Answer(status, (), content))

    def _answer(self, answer: Answer) -> None:
        self.send_response(answer.status)
        for name, value in answer.headers:
            if name.lower() not in ("content-length", "connection", "date", "server", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.content)))
        self.end_headers()
        # A client that waited for too long is gone.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self.wfile.write(answer.content)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


LineT = TypeVar("LineT", bound=Line)


@contextlib.contextmanager
def served(line: LineT) -> Iterator[LineT]:
    """A line while the block runs."""
    with line:
        threading.Thread(target=line.serve_forever, daemon=True).start()
        yield line
        line.ended.set()
        line.shutdown()


def lossy_glue(address: str) -> contextlib.AbstractContextManager[LossyGlue]:
    """Glue's stand-in at ``address``, behind such a line."""
    return served(LossyGlue(address))
