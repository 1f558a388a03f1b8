"""Real servers on this machine's own ports that keep what they were sent: SMTP and HTTP."""

from __future__ import annotations

import contextlib
import json
import threading
from dataclasses import dataclass, field
from email import message_from_bytes, policy
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from aiosmtpd.controller import Controller

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator
    from email.message import EmailMessage


@dataclass
class Mailbox:
    """An SMTP server's address, and the mails that it took."""

    host: str = "127.0.0.1"
    port: int = 0
    mails: list[EmailMessage] = field(default_factory=list)

    async def handle_DATA(self, _server: Any, _session: Any, envelope: Any) -> str:  # noqa: N802
        """Keep a mail."""
        self.mails.append(message_from_bytes(envelope.content, policy=policy.default))
        return "250 kept"


class _OnAnyPort(Controller):
    """A controller that finds out which port the system chose, before it looks whether it answers."""

    def _trigger_server(self) -> None:
        self.port = self.server.sockets[0].getsockname()[1]
        super()._trigger_server()


@contextlib.contextmanager
def smtp_server(
    *, password: tuple[str, str] | None = None, tls: ssl.SSLContext | None = None
) -> Iterator[Mailbox]:
    """An SMTP server; with a user and a password it takes mails of nobody else."""
    from aiosmtpd.smtp import AuthResult

    box = Mailbox()

    def authenticate(_server: Any, _session: Any, _envelope: Any, _how: str, data: Any) -> AuthResult:
        right = (data.login.decode(), data.password.decode()) == password
        return AuthResult(success=right, handled=right)

    options: dict[str, Any] = {"tls_context": tls, "require_starttls": tls is not None}
    if password is not None:
        options |= {"authenticator": authenticate, "auth_required": True}
    controller = _OnAnyPort(box, hostname=box.host, port=0, **options)
    controller.start()
    try:
        box.port = controller.port
        yield box
    finally:
        controller.stop()


@dataclass
class Posts:
    """An HTTP server's address, and what was posted to it; ``status`` is its answer, and ``location`` where
    it sends its clients instead.
    """

    url: str = ""
    status: int = 200
    location: str = ""
    paths: list[str] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    bodies: list[Any] = field(default_factory=list)


@contextlib.contextmanager
def http_server() -> Iterator[Posts]:
    """An HTTP server that takes JSON by POST."""
    posts = Posts()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            posts.paths.append(self.path)
            posts.headers.append(dict(self.headers))
            posts.bodies.append(json.loads(body))
            self.send_response(posts.status)
            self.send_header("Content-Length", "0")
            if posts.location:
                self.send_header("Location", posts.location)
            self.end_headers()

        def do_GET(self) -> None:
            posts.paths.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    posts.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield posts
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
