"""Servers that a test starts: each a process that listens on a port of its own."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

PATIENCE: Final = 60
"""So many seconds a server may take to answer."""


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
    return port


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    """Wait until something listens on a port."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with socket.socket() as asked:
            if asked.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            break
        time.sleep(0.05)
    raise AssertionError(f"nothing listens on {port}: {log.read_text(errors='replace')[-2000:]}")


class Server:
    """A process that listens on a port of its own, and keeps what it needs in a folder."""

    folder: Path
    port: int
    _process: subprocess.Popen[bytes]

    def kill(self) -> None:
        """Kill it as a power cut would."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """Stop it, and delete its folder."""
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def log(self) -> Path:
        return self.folder / "server.log"
