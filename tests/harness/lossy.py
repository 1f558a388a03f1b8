"""Glue's catalog behind a line that loses answers, and requests, in every way in turn."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

WAYS: Final = ("request lost once", "answer lost once", "answer lost", "request lost")
_COMMIT: Final = "AWSGlue.UpdateTable"


class LossyGlue(ThreadingHTTPServer):
    """Passes requests on to ``address``; every other commit meets the next of ``WAYS``, each time it comes.

    A commit is known by the metadata that it names.
    """

    daemon_threads = True

    def __init__(self, address: str) -> None:
        """Listen on a free port of this machine."""
        super().__init__(("127.0.0.1", 0), _Handler)
        self.behind = urlsplit(address).netloc
        self.met: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._ways = itertools.cycle(word for way in WAYS for word in ("nothing lost", way))
        self._known: dict[str, tuple[str, int]] = {}

    @property
    def address(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.server_port}"

    def loss(self, target: str, body: dict[str, Any]) -> str:
        """What is lost of a request: nothing, the request or the answer; one of these words."""
        if target != _COMMIT:
            return "nothing"
        commit = body["TableInput"]["Parameters"]["metadata_location"]
        with self._lock:
            way, tries = self._known.get(commit) or (next(self._ways), 0)
            self._known[commit] = way, tries + 1
            if tries and way.endswith("once"):
                return "nothing"
            self.met[way] += 1
            return way.split()[0]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: LossyGlue

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        lost = self.server.loss(self.headers["X-Amz-Target"], json.loads(body))
        if lost != "request":
            line = http.client.HTTPConnection(self.server.behind, timeout=120)
            line.request("POST", self.path, body, dict(self.headers))
            answer = line.getresponse()
            content = answer.read()
            line.close()
        if lost != "nothing":
            self.close_connection = True
            return
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("content-length", "connection", "date", "server", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@contextlib.contextmanager
def lossy_glue(address: str) -> Iterator[LossyGlue]:
    """Glue's stand-in at ``address``, behind such a line."""
    with LossyGlue(address) as line:
        threading.Thread(target=line.serve_forever, daemon=True).start()
        yield line
        line.shutdown()
