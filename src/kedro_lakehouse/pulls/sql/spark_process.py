"""A process with a Spark of its own that reads a database by JDBC, and what is asked of it."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from concurrent.futures import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.errors import cut
from kedro_lakehouse.pulls.errors import InexactFault, SourceFault, TerminalFault, TransientFault
from kedro_lakehouse.pulls.sql.dialect import ASKED_ONCE
from kedro_lakehouse.pulls.sql.reader import CLOSED
from kedro_lakehouse.pulls.watch import in_background

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from concurrent.futures import Future

    import pyarrow as pa

_MODULE: Final = "kedro_lakehouse.session.jdbc"
"""Spark lies above the pulls, so its module is started and not imported."""
_LOOKS: Final = 0.2
_PASSES: Final = ("08", "40", "53", "57", "58", "HYT", "S1T")
"""Beginnings of SQLSTATE that may pass by itself."""
_LOG_IN: Final = "28"
_NAMES: Final = ("28", "3D", "3F", "42")
"""Beginnings of states whose words hold no value of a row: names and rights."""
_NO_DRIVER: Final = ("No suitable driver", "ClassNotFoundException")
_UNKNOWN_TYPE: Final = re.compile(r"UNRECOGNIZED_SQL_TYPE.*?(?:name: (.+?), id|$)", re.DOTALL)
_END_SECONDS: Final = 2.0
"""So long a read that nobody wants any more may take to end, before its process is killed."""
_idle: Final[dict[tuple[str, ...], list[SparkProcess]]] = {}
"""Processes that have nothing to do, by their drivers: the next table takes one, or it ends by itself."""
_taking: Final = threading.Lock()


class SparkProcess:
    """One process with the drivers of some jars; it answers one question after the other."""

    def __init__(self, jars: Sequence[str]) -> None:
        """Start it; Spark starts with the first question.

        Raises:
            TerminalFault: One of the jars cannot be read.
        """
        self._jars = tuple(jars)
        self._folder = tempfile.TemporaryDirectory(prefix="kedro-lakehouse-jdbc-", ignore_cleanup_errors=True)
        try:
            local = [_local(jar, self._folder.name) for jar in jars]
        except TerminalFault:
            self._folder.cleanup()
            raise
        self._process = subprocess.Popen(  # noqa: S603 - our own words
            [sys.executable, "-m", _MODULE],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            text=True, encoding="utf-8", start_new_session=True,
        )  # fmt: skip
        self._is_asked = self._is_stopped = False
        self._line: socket.socket | None = None
        self._reading: Future[dict[str, Any]] | None = None
        self._say({"jars": local, "folder": self._folder.name})

    @classmethod
    def taken(cls, jars: Sequence[str]) -> SparkProcess:
        """An idle process with these drivers, or a new one."""
        with _taking:
            idle = _idle.get(tuple(jars), [])
            while idle:
                found = idle.pop()
                if found.is_taken():
                    return found
                found.end()
        return cls(jars)

    def is_taken(self) -> bool:
        """Whether it answers again; it may have ended meanwhile."""
        self._is_stopped = False
        return self._process.poll() is None

    def give_back(self) -> None:
        """Let the next table have it; a read that goes on is stopped, or killed where that takes long."""
        self._is_stopped = True
        if self._line is not None:
            with contextlib.suppress(OSError):
                self._line.shutdown(socket.SHUT_RDWR)
        if self._reading is not None:
            wait([self._reading], _END_SECONDS)
        if self._is_asked:
            self.end()
        else:
            with _taking:
                _idle.setdefault(self._jars, []).append(self)

    def end(self) -> None:
        """End it, also from another thread than the one that waits for its answer."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what was not said any more
                    pipe.close()
        self._folder.cleanup()

    def ask(self, do: str, **question: Any) -> dict[str, Any]:
        """Ask, and wait for the answer.

        Raises:
            SourceFault: What the database, or Spark, says instead.
        """
        self._begin(do, **question)
        return self._answer()

    def rows(
        self, options: Mapping[str, str], query: str, types: Mapping[str, str]
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a query, as Spark reads them; none come where there are no rows.

        Args:
            options: Spark's options for the database.
            types: Spark's type of each of its columns.

        Raises:
            SourceFault: What the database, or Spark, says instead, or has said after some of the rows.
        """
        place = str(Path(self._folder.name) / "rows")
        Path(place).unlink(missing_ok=True)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(place)
            server.listen(1)
            server.settimeout(_LOOKS)
            self._begin("read", options=options, query=query, types=types, to=place)
            reading = self._reading = in_background(self._answer)
            line = self._line = _accepted(server, reading)
        read = 0
        if line is not None:
            with line:
                for batch in _batches(line):
                    read += batch.num_rows
                    yield batch
        if (sent := reading.result()["rows"]) != read:
            raise TransientFault(f"{read} of {sent} rows arrived")

    def _begin(self, do: str, **question: Any) -> None:
        self._is_asked = True
        self._say({"do": do, **question})

    def _say(self, content: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it was opened as a pipe
        # That it has ended, or was ended by another thread, is said where the answer is awaited.
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(json.dumps(content) + "\n")
            self._process.stdin.flush()

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None  # noqa: S101 - it was opened as a pipe
        line = ""
        with contextlib.suppress(ValueError):  # another thread has closed it
            line = self._process.stdout.readline()
        if not line:
            raise TransientFault(CLOSED if self._is_stopped else "the process that read it has ended")
        self._is_asked = False
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise TransientFault(CLOSED) if self._is_stopped else _fault(**answer["error"])
        return answer


@atexit.register
def _end_idle() -> None:
    for idle in _idle.values():
        while idle:
            idle.pop().end()


def _local(jar: str, folder: str) -> str:
    """The place of a file on this machine; one that lies elsewhere is copied into a folder."""
    import fsspec

    files, path = fsspec.core.url_to_fs(jar)
    if "file" in files.protocol and Path(path).is_file():
        return str(path)
    own = f"{folder}/{path.rpartition('/')[2]}"
    try:
        files.get_file(path, own)
    except OSError as error:
        raise TerminalFault(
            f"the driver {jar} cannot be read ({error.strerror or type(error).__name__})",
            "Download it, and correct `jars` in sources.yml.",
        ) from error
    return own


def _accepted(server: socket.socket, answer: Future[dict[str, Any]]) -> socket.socket | None:
    """The line on which rows come; None if there is an answer and none came."""
    while True:
        with contextlib.suppress(TimeoutError):
            line, _ = server.accept()
            line.settimeout(None)
            return line
        if answer.done():
            return None


def _batches(line: socket.socket) -> Iterator[pa.RecordBatch]:
    """What arrives, until it ends or is cut; the answer says whether it was all."""
    import pyarrow as pa

    with contextlib.suppress(pa.ArrowInvalid, OSError), line.makefile("rb") as file:
        yield from pa.ipc.open_stream(file)


def _fault(kind: str, state: str | None, words: str | None) -> SourceFault:
    """What an error means for the pull; only what holds no value of a row is shown."""
    words = (words or "").strip()
    if kind in _NO_DRIVER or words.startswith(_NO_DRIVER):
        return TerminalFault(
            "none of `jars` has a driver for the address",
            "Correct `jars` and `connection: {url, driver}` in sources.yml.",
        )
    if unknown := _UNKNOWN_TYPE.search(words):
        return InexactFault(
            f"Spark does not read the type {cut(unknown[1] or 'of a column', 60)}",
            "Make a view that casts the column to a text, and name the view as `entity`.",
        )
    if kind not in ("sql", "passing"):
        shown = f": {cut(words, 200)}" if words else ""
        return TerminalFault(f"Spark cannot read it ({kind}{shown})", "Correct `connection`.")
    is_log_in = state is not None and state.startswith(_LOG_IN)
    if state is None or state.startswith(_PASSES) or (kind == "passing" and not is_log_in):
        return TransientFault(f"the work ended (SQLSTATE {state or 'unknown'})")
    shown = f": {cut(words.splitlines()[0], 100)}" if words and state.startswith(_NAMES) else ""
    remedy = ASKED_ONCE if is_log_in else "Correct `entity`, or grant the right to read it."
    return TerminalFault(f"the server refuses (SQLSTATE {state}){shown}", remedy)
