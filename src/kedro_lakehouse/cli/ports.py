"""Whether a port of this machine is free for a server that a command starts."""

from __future__ import annotations

import socket


def is_taken(port: int, host: str = "127.0.0.1") -> bool:
    """Whether something listens there now."""
    with socket.socket() as tried:
        # As the server: what ended just now is gone.
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
        except OSError:
            return True
    return False
