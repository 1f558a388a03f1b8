"""Run queries here: a process for each, watched for its time, its memory and its cancelling."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pickle
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.query.errors import (
    QueryCancelledError,
    QueryLostError,
    QueryMemoryError,
    QueryOutputError,
    QueryTooLongError,
    TooManyQueriesError,
)
from kedro_lakehouse.query.states import TableRead
from kedro_lakehouse.query.worker import Work, error_facts

if TYPE_CHECKING:
    from kedro_lakehouse.errors import LakehouseError
    from kedro_lakehouse.query.states import QueryState, ResultFolder, State

_LOOK_EVERY: Final = 0.05
_MIB: Final = 2**20
_PAGE: Final = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True, kw_only=True)
class Limits:
    """What one query may take.

    Units:
        seconds: of the clock.
        memory: bytes that its process holds.
    """

    seconds: float
    memory: int
    at_once: int


class LocalQueries:
    """The queries that this process has started and that have not ended."""

    def __init__(self, folder: ResultFolder, limits: Limits) -> None:
        """Start nothing yet."""
        self._folder, self._limits = folder, limits
        self._running: dict[str, threading.Thread] = {}
        self._changing = threading.Lock()

    def start(self, state: QueryState, work: Work) -> None:
        """Start a query, whose state is written by then.

        Raises:
            TooManyQueriesError: So many run that no other may be started now.
        """
        with self._changing:
            self._running = {name: one for name, one in self._running.items() if one.is_alive()}
            if len(self._running) >= self._limits.at_once:
                raise TooManyQueriesError(running=len(self._running))
            lock = self._folder.made_lock(state.id)
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._folder.write(state)
            thread = threading.Thread(target=self._watch, args=(state, work, lock), daemon=True)
            self._running[state.id] = thread
            thread.start()

    def wait(self, query: str, seconds: float | None = None) -> None:
        """Wait until a query that was started here has ended."""
        with self._changing:
            thread = self._running.get(query)
        if thread is not None:
            thread.join(seconds)

    def _watch(self, state: QueryState, work: Work, lock: int) -> None:
        """Run the query's process and write how it ended; whatever happens, no part of a result stays."""
        part = Path(work.part)
        try:
            ended = self._ended(state, work, lock)
        except Exception:  # noqa: BLE001 - the thread has nobody to raise it to
            ended = state.ended("failed", error=error_facts(QueryLostError(query=state.id)))
        finally:
            part.unlink(missing_ok=True)
        self._folder.write(ended)
        self._folder.tidy_up(state.id)
        os.close(lock)

    def _ended(self, state: QueryState, work: Work, lock: int) -> QueryState:
        process = subprocess.Popen(
            [sys.executable, "-m", "kedro_lakehouse.query.worker"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=(lock,),
        )  # fmt: skip
        try:
            with contextlib.suppress(BrokenPipeError):
                _given(process, work)
            if (reason := self._reason_to_end(process, state.id)) is not None:
                kind: State = "cancelled" if isinstance(reason, QueryCancelledError) else "failed"
                return state.ended(kind, error=error_facts(reason))
        finally:
            process.kill()
            answer = process.communicate()[0]
        return _published(state, work, answer)

    def _reason_to_end(self, process: subprocess.Popen[bytes], query: str) -> LakehouseError | None:
        """Wait for the process; why it must end before it does so by itself, or None."""
        before = time.monotonic() + self._limits.seconds
        while True:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_EVERY)
                return None
            if self._folder.is_cancelled(query):
                return QueryCancelledError(query=query)
            if time.monotonic() > before:
                return QueryTooLongError(seconds=self._limits.seconds)
            if _held_by(process.pid) > self._limits.memory:
                return QueryMemoryError(megabytes=self._limits.memory // _MIB)


def lives(folder: ResultFolder, query: str) -> bool:
    """Whether the process of a query, or the one that started it, is there."""
    if (lock := folder.lock(query)) is None:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def lost(folder: ResultFolder, state: QueryState) -> QueryState:
    """Write that the process of a query is gone, and remove what it left."""
    Path(part_of(state)).unlink(missing_ok=True)
    ended = state.ended("failed", error=error_facts(QueryLostError(query=state.id)))
    folder.write(ended)
    folder.tidy_up(state.id)
    return ended


def part_of(state: QueryState) -> str:
    """The file to which a query writes until it has ended well."""
    file = Path(state.location)
    return str(file.with_name(f".{state.id}.part"))


def _given(process: subprocess.Popen[bytes], work: Work) -> None:
    assert process.stdin is not None  # noqa: S101 - it is a pipe
    pickle.dump(work, process.stdin)
    process.stdin.flush()


def _published(state: QueryState, work: Work, answer: bytes) -> QueryState:
    """Give the result its name, if the process says that it is whole."""
    try:
        done: dict[str, Any] = json.loads(answer)
    except ValueError:
        return state.ended("failed", error=error_facts(QueryLostError(query=state.id)))
    if "error" in done:
        return state.ended("failed", error=done["error"])
    part = Path(work.part)
    part.chmod(0o600)
    try:
        os.link(part, state.location)
    except FileExistsError:  # another query was faster
        problem = "is the name of another result"
        taken = QueryOutputError(output=Path(state.location).name, problem=problem)
        return state.ended("failed", error=error_facts(taken))
    tables = tuple(TableRead(**one) for one in done["tables"])
    return state.ended("done", rows=done["rows"], bytes=part.stat().st_size, tables=tables)


def _held_by(pid: int) -> int:
    """The bytes of memory that a process holds; 0 where the system does not tell."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0
