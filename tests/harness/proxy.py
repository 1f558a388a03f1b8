"""A line between a client and a server that breaks in the middle of an answer, or falls silent."""

from __future__ import annotations

import contextlib
import select
import socket
import struct
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_AT_ONCE = 4096


class Line:
    """Passes bytes on between clients and a port of this machine.

    ``cut_at`` is the number of bytes of answers after which the connection is reset that brings the next one;
    it happens once. From ``silent_at`` bytes on ``silent`` is set: then no byte of an answer is passed on.
    """

    def __init__(self, port: int) -> None:
        """Listen on a free port."""
        self._server = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.cut_at: int | None = None
        self.silent_at: int | None = None
        self.passed = self.cuts = 0
        self.silent = threading.Event()
        self._turn, self._closed = threading.Lock(), threading.Event()
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def restart(self, cut_at: int | None = None, silent_at: int | None = None) -> None:
        """Count from the beginning, and cut once after so many bytes, or fall silent."""
        self.passed, self.cut_at, self.silent_at = 0, cut_at, silent_at

    def close(self) -> None:
        """End all connections."""
        self._closed.set()
        self.silent.clear()
        for one in (self._listener, *self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)  # ends a wait in it
            one.close()

    def _accept(self) -> None:
        while not self._closed.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._server))
            except OSError:
                _reset(client)
                continue
            self._sockets += [client, server]
            for words in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._pass, args=words, daemon=True).start()

    def _pass(self, source: socket.socket, to: socket.socket, is_answer: bool) -> None:
        try:
            while content := self._received(source):
                if is_answer:
                    while self.silent.is_set():
                        self._closed.wait(0.05)
                    if (left := self._left(len(content))) is not None:
                        to.sendall(content[:left])
                        _reset(to)
                        return
                to.sendall(content)
        except (OSError, ValueError):  # a closed socket has no number
            pass
        finally:
            for one in (source, to):
                with contextlib.suppress(OSError):
                    one.shutdown(socket.SHUT_RDWR)
                    one.close()

    def _received(self, source: socket.socket) -> bytes:
        """The next bytes; a thread that waits in the call would keep another's reset from being sent."""
        while not self._closed.is_set():
            if select.select([source], [], [], 0.02)[0]:
                return source.recv(_AT_ONCE)
        return b""

    def _left(self, size: int) -> int | None:
        """How many of the next bytes are passed on before the cut; None if it does not lie in them."""
        with self._turn:
            before, self.passed = self.passed, self.passed + size
            if self.silent_at is not None and self.passed >= self.silent_at:
                self.silent_at = None
                self.silent.set()
            if self.cut_at is None or self.passed <= self.cut_at:
                return None
            left, self.cut_at = max(0, self.cut_at - before), None
            self.cuts += 1
            return left


def _reset(to: socket.socket) -> None:
    """Close a connection by a reset: what was not read yet is lost."""
    to.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    to.close()


@contextlib.contextmanager
def line_to(port: int) -> Iterator[Line]:
    """A line to a port of this machine."""
    made = Line(port)
    try:
        yield made
    finally:
        made.close()
