"""The loop that keeps tables up to date: small runs, one after the other, on one warm Spark."""

from __future__ import annotations

import ctypes
import logging
import signal
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.errors import LakehouseError, UnknownNameError
from kedro_lakehouse.ingestion.landing import has_news
from kedro_lakehouse.ingestion.planner import STOPPING
from kedro_lakehouse.names import TableName, is_within
from kedro_lakehouse.ops.failures import TablesFailedError
from kedro_lakehouse.project import active_project
from kedro_lakehouse.runners import run_tables

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator
    from pathlib import Path

    from kedro_lakehouse.project import Project

logger = logging.getLogger(__name__)

_LONGEST_PAUSE: Final = 300.0
"""Seconds after which a table that fails is tried again at the latest."""
_MANY_CYCLES: Final = 100
"""A table that so many cycles have written is maintained: each of its small files costs every later batch."""
_QUIET: Final = 60.0
"""Seconds without a new row after which the small files of a table become one: readers then open few."""
_TRIMMED: Final = 60.0
"""Seconds after which free memory is given back to the system."""
_ARENA_MAX, _ARENAS = -8, 2
"""How many arenas all threads share: in each stays some free memory, and by itself glibc has eight a core."""
_OWN_TABLES: Final = "ops.tables"
"""The namespace in which the project's own tables are maintained."""


@dataclass
class _Trouble:
    """How often in a row a table failed, and when it is tried again."""

    times: int = 0
    next_try: float = 0.0
    said: str = ""


@dataclass
class Stream:
    """The loop over tables of one project.

    Each cycle is a ``kedro run`` of the tables that have something new: with its records, logs and retries.
    A table that fails is tried again after pauses that grow, while the others go on. Between two cycles one
    table is maintained, if it was written and its last maintenance is ``maintain_every`` seconds ago, or a
    hundred cycles have written it since: so its files stay few, and no table waits for the maintenance of all
    others. A minute after its last new row a table is at rest, and its small files become one.
    """

    folder: Path
    env: str | None
    namespaces: Collection[str] = ()
    every: float = 10.0
    maintain_every: float = 900.0
    cycles: int = 0
    _troubles: dict[str, _Trouble] = field(default_factory=dict)
    _written: dict[str, int] = field(default_factory=dict)
    """In how many cycles each table was written since its last maintenance."""
    _maintained: dict[str, float] = field(default_factory=dict)
    _moving: dict[str, float] = field(default_factory=dict)
    """When each table was last written that was not yet found at rest."""
    _trimmed: float = field(default_factory=time.monotonic)

    def run(self, project: Project, *, seconds: float | None = None, until_idle: bool = False) -> list[str]:
        """Run cycles until the time is over, ``STOPPING`` is set or, with ``until_idle``, nothing is new.

        Returns:
            The tables whose last try failed.

        Raises:
            UnknownNameError: A namespace is that of no table.
        """
        _ask_glibc("mallopt", _ARENA_MAX, _ARENAS)
        tables = self._chosen(project)
        end = None if seconds is None else time.monotonic() + seconds
        while not STOPPING.is_set():
            begun = time.monotonic()
            new = [t for t in tables if self._is_due(t, begun) and self._has_news(project, t)]
            # New offsets may hold no record, as those of an aborted transaction: then nothing is committed.
            worked = bool(new) and self._cycle(_with_made(project, new))
            maintained = self._maintain_one() or self._maintain_at_rest(project)
            self._give_back_memory()
            if until_idle and not worked:
                break
            over = None if end is None else end - time.monotonic()
            if over is not None and over <= 0:
                break
            # Where a cycle had something to do, more may have come meanwhile: the next one follows at once.
            pause = 0.0 if worked or maintained else self.every - (time.monotonic() - begun)
            STOPPING.wait(max(0.0, pause if over is None else min(pause, over)))
        return sorted(self._troubles)

    def _chosen(self, project: Project) -> list[str]:
        known = {str(name) for name, table in project.declarations.tables.items() if table.source}
        for space in self.namespaces:
            if not any(is_within(table, space) for table in known):
                raise UnknownNameError(
                    option="--namespaces", kind="namespace of a table with a source", name=space,
                    known=sorted(known), remedy="`kedro lakehouse tables` lists the tables.",
                )  # fmt: skip
        spaces = self.namespaces or ("",)
        return sorted(table for table in known if any(is_within(table, space) for space in spaces))

    def _is_due(self, table: str, now: float) -> bool:
        return now >= self._troubles[table].next_try if table in self._troubles else True

    def _has_news(self, project: Project, table: str) -> bool:
        """Whether a table has something to do; what cannot be looked at is tried later, like a failure."""
        try:
            return has_news(project.bind(TableName.parse(table)))
        except LakehouseError as error:
            self._failed(table, error)
            return False

    def _cycle(self, tables: Collection[str]) -> bool:
        """Run these tables as ``kedro run`` does; whether anything was committed."""
        self.cycles += 1
        failed: dict[str, BaseException] = {}
        try:
            run_tables(self.folder, self.env, tables)
        except TablesFailedError as error:
            failed = dict(error.tables)
        except LakehouseError as error:
            failed = dict.fromkeys(tables, error)
        for table in tables:
            if table in failed:
                self._failed(table, failed[table])
            else:
                self._troubles.pop(table, None)
        written = {report.table for report in active_project().reports}
        for table in {*written, _OWN_TABLES} if written else ():
            self._written[table] = self._written.get(table, 0) + 1
            self._maintained.setdefault(table, time.monotonic())
        self._moving |= dict.fromkeys(written, time.monotonic())
        return bool(written)

    def _maintain_one(self) -> bool:
        """Maintain the table that has waited longest, if one has waited long enough; whether one had."""
        now = time.monotonic()
        due = [
            t
            for t, cycles in self._written.items()
            if cycles >= _MANY_CYCLES or now - self._maintained[t] >= self.maintain_every
        ]
        if not due:
            return False
        table = min(due, key=lambda t: self._maintained[t])
        del self._written[table]
        self._maintained[table] = now
        try:
            run_tables(self.folder, self.env, [table], "maintenance")
        except LakehouseError as error:
            logger.warning("%s is not maintained now: %s", table, error)
        return True

    def _maintain_at_rest(self, project: Project) -> bool:
        """Make one file of the small ones of a table that is at rest now; whether one is."""
        now = time.monotonic()
        table = next((t for t, written in self._moving.items() if now - written >= _QUIET), None)
        if table is None:
            return False
        from kedro_lakehouse.operations.maintain import maintain_at_rest  # it imports Spark

        del self._moving[table]
        try:
            maintain_at_rest(project, project.bind(TableName.parse(table)))
        except Exception as error:  # noqa: BLE001 - Spark and stores raise what they like; the loop goes on
            logger.warning("The files of %s stay as they are now: %s", table, error)
        return True

    def _give_back_memory(self) -> None:
        """Give free memory back once a minute: by itself glibc gives back only the end of an arena."""
        if time.monotonic() - self._trimmed < _TRIMMED:
            return
        self._trimmed = time.monotonic()
        _ask_glibc("malloc_trim", 0)

    def _failed(self, table: str, error: BaseException) -> None:
        trouble = self._troubles.setdefault(table, _Trouble())
        pause = min(_LONGEST_PAUSE, max(self.every, 1.0) * 2**trouble.times)
        trouble.times += 1
        trouble.next_try = time.monotonic() + pause
        if str(error) != trouble.said:
            logger.warning("%s", error)
        trouble.said = str(error)
        logger.info("%s is tried again in %.0f s", table, pause)


def _ask_glibc(function: str, *numbers: int) -> None:
    """Call a function about memory, where the C library has it: others do without."""
    found = getattr(ctypes.CDLL(None), function, None)
    if found is not None:
        found(*numbers)


def _with_made(project: Project, tables: Iterable[str]) -> set[str]:
    found = set(tables)
    for table in tuple(found):
        found.update(project.declarations.made_from(TableName.parse(table)))
    return found


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """While the block runs, the first SIGTERM or SIGINT asks for an end after the batch in hand."""

    def ask(number: int, _: Any) -> None:
        if STOPPING.is_set():
            signal.signal(number, before[signal.Signals(number)])
            signal.raise_signal(number)
        STOPPING.set()

    STOPPING.clear()
    before = {number: signal.signal(number, ask) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
