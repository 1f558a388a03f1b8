"""What `kedro run` shows on a terminal while it works: a few lines that move, above which warnings stay.

It only looks: at the nodes that hooks report, the batches that are planned, and the reports of commits. The
lines of level INFO are in the run's log alone meanwhile (`kedro lakehouse logs`).
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Self

from kedro_lakehouse.errors import LakehouseError, counted
from kedro_lakehouse.monitoring.past import Past, past_of
from kedro_lakehouse.session.spark import STARTING, spark_runs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kedro.pipeline import Pipeline
    from kedro.pipeline.node import Node
    from rich.console import Console, RenderableType
    from rich.live import Live

    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project

SWITCH: Final = "KEDRO_LAKEHOUSE_PROGRESS"
"""``off`` shows log lines on a terminal too, as elsewhere."""
_SHOWN_TABLES: Final = 8
_A_SECOND: Final = 8
"""How often the lines are drawn."""
_A_MINUTE: Final = 60


_shown: list[RunProgress] = []
"""The progress that is shown now, if one is."""


def node_is_over(node: Node) -> None:
    """Tell the progress, if one is shown, that a node is over: all that it gave is saved, or it failed."""
    for one in _shown:
        one.node_ended(node)


def wants_progress() -> bool:
    """Whether somebody looks at a terminal, and has not said that they want the log lines."""
    from kedro_lakehouse.monitoring.run_log import FORMAT

    plain = os.environ.get(SWITCH, "").lower() in ("off", "0", "no") or os.environ.get("TERM") == "dumb"
    return sys.stderr.isatty() and not plain and os.environ.get(FORMAT, "text").lower() != "json"


@dataclass
class _TableWork:
    """What is known of a table's work in this run; ``total``: None until the landing folder was looked at."""

    nodes: int
    word: str
    begun: float | None = None
    ended: float | None = None
    at_work: Counter[str] = field(default_factory=Counter)
    batches: dict[int, tuple[int, int]] = field(default_factory=dict)
    published: set[int] = field(default_factory=set)
    rows: int = 0
    total: tuple[int, int] | None = None

    @property
    def files(self) -> tuple[int, int]:
        """The files of batches that are published, and of those in work."""
        done = sum(files for batch, (files, _) in self.batches.items() if batch in self.published)
        return done, sum(files for files, _ in self.batches.values()) - done


class RunProgress:
    """The lines of one run; several threads may report to it."""

    def __init__(
        self,
        project: Project,
        pipeline: Pipeline,
        find_waiting: Callable[[], Mapping[str, tuple[int, int]]],
        console: Console | None = None,
        *,
        one_by_one: bool = False,
    ) -> None:
        """Count the nodes of each table; nothing is shown yet.

        Args:
            project: The running project.
            pipeline: What runs.
            find_waiting: Finds how many landed files of each table are in no batch, and their bytes.
            console: Where the lines go; by default the standard error.
            one_by_one: Whether the start of a node tells that the one before is over: Kedro itself reports
                only the end of a function, and what a node gives is made when it is saved.
        """
        self._project, self._find_waiting, self._console = project, find_waiting, console
        self._one_by_one = one_by_one
        self._tables: dict[str, _TableWork] = {}
        words = {str(name): _word(project, name) for name in project.declarations.tables}
        for node in pipeline.nodes:
            name = node.namespace or node.name
            work = self._tables.setdefault(name, _TableWork(0, words.get(name, "")))
            work.nodes += 1
        self._declared = {name for name in self._tables if name in words}
        self._at_work: list[Node] = []
        self._over: set[Node] = set()
        self._begun = perf_counter()
        self._past: Past | None = None
        self._spark_since: float | None = None
        self._seen = 0
        self._lock = threading.Lock()
        self._live: Live | None = None
        self._handlers: list[logging.Handler] = []
        self._spinner: Any = None

    def open(self) -> Self:
        """Show the lines, and let only warnings through; look in the background at what waits."""
        import atexit

        from rich.console import Console
        from rich.live import Live
        from rich.spinner import Spinner

        console = self._console = self._console or Console(stderr=True)
        self._spinner = Spinner("dots")
        self._live = Live(
            get_renderable=self.drawn, console=console, refresh_per_second=_A_SECOND, transient=True
        )
        root = logging.getLogger()
        self._handlers = list(root.handlers)
        root.handlers[:] = [self._above(one, console) if _is_console(one) else one for one in root.handlers]
        self._live.start()
        _shown.append(self)
        atexit.register(self.close)  # an interrupted run must not leave the terminal without its cursor
        threading.Thread(target=self._look, daemon=True, name="progress").start()
        return self

    def close(self) -> None:
        """Remove the lines; logging is as it was before."""
        import atexit

        live, self._live = self._live, None
        if live is None:
            return
        live.stop()
        _shown.remove(self)
        atexit.unregister(self.close)
        logging.getLogger().handlers[:] = self._handlers

    def node_started(self, node: Node) -> None:
        """Note that a node works."""
        with self._lock:
            if self._one_by_one:
                for before in [one for one in self._at_work if one is not node]:
                    self._end(before)
            if node in self._over or node in self._at_work:
                return  # a further input of it
            work = self._tables.get(node.namespace or node.name)
            if work is not None:
                self._at_work.append(node)
                work.begun = work.begun or perf_counter()
                work.at_work[node.short_name] = 1

    def node_ended(self, node: Node) -> None:
        """Note that a node is over, well or not."""
        with self._lock:
            self._end(node)

    def _end(self, node: Node) -> None:
        work = self._tables.get(node.namespace or node.name)
        if work is None or node in self._over:
            return
        self._over.add(node)
        self._at_work = [one for one in self._at_work if one is not node]
        del work.at_work[node.short_name]
        work.nodes -= 1
        if work.nodes == 0:
            work.ended = perf_counter()

    def drawn(self) -> RenderableType:
        """The lines as they are now."""
        from rich.console import Group
        from rich.text import Text

        with self._lock:
            self._look_at_batches()
            lines = self._lines()
        self._spinner.update(text=Text(lines[0], overflow="ellipsis", no_wrap=True))
        rest = [Text(f"  {line}", style="dim", overflow="ellipsis", no_wrap=True) for line in lines[1:]]
        return Group(self._spinner, *rest)

    def _lines(self) -> list[str]:
        """How far all is, whether Spark starts, and what is done for the tables in work."""
        done = sum(self._tables[name].ended is not None for name in self._declared)
        rows, seconds = sum(work.rows for work in self._tables.values()), perf_counter() - self._begun
        first = [f"{done} of {counted(len(self._declared), 'table')}"]
        if rows:
            first += [f"{rows:,} rows", f"{rows / seconds:,.0f} rows/s"]
        first.append(_lasting(seconds))
        if (left := self._left()) is not None:
            first.append(f"about {_lasting(left)} left")
        lines = [" · ".join(first)]
        if self._spark_since is not None:
            lines.append(f"starting Spark · {_lasting(perf_counter() - self._spark_since)}")
        busy = [(name, work) for name, work in self._tables.items() if work.at_work and work.ended is None]
        lines += [_line(name, work) for name, work in busy[:_SHOWN_TABLES]]
        if len(busy) > _SHOWN_TABLES:
            lines.append(f"and {len(busy) - _SHOWN_TABLES} more")
        return lines

    def _left(self) -> float | None:
        """Seconds that the rest takes, by what earlier batches took; None where there are none."""
        if self._past is None:
            return None
        left, now = 0.0, perf_counter()
        for name, work in self._tables.items():
            if work.ended is not None:
                continue
            files, size = work.total or (0, 0)
            expected = self._past.seconds(name, size) if files else 0.0
            if expected is None:
                return None
            left += max(expected - (now - work.begun if work.begun else 0), 0)
        return left / self._past.side_by_side if left else None

    def _look(self) -> None:
        """Find what waits, and what earlier batches took; what cannot be found is not shown."""
        with suppress(LakehouseError, OSError):
            self._past = past_of(self._project.ops)
        with suppress(LakehouseError, OSError):
            for name, total in self._find_waiting().items():
                if name in self._tables:
                    self._tables[name].total = total

    def _look_at_batches(self) -> None:
        """Take over what has been planned and committed since the last look."""
        if self._spark_since is not None and spark_runs():
            self._spark_since = None
        for name, given in list(self._project.ingesting.items()):
            work, planned = self._tables.get(str(name)), given.planned
            if work is not None and planned.batch not in work.batches:
                work.batches[planned.batch] = (len(planned.files), sum(f.size for f in planned.files))
        reports = self._project.reports
        for report in reports[self._seen :]:
            work = self._tables.get(report.table)
            if work is not None and report.stage == "ingestion":
                work.published.add(report.batch)
                work.rows += report.counts.get("events_in") or 0
        self._seen = len(reports)

    def _above(self, handler: logging.Handler, console: Console) -> logging.Handler:
        """In the place of a handler of the terminal: warnings above the lines; of INFO only Spark's start."""
        from rich.text import Text

        progress = self

        class Above(logging.Handler):
            def emit(self, record: logging.LogRecord) -> None:
                if getattr(record, STARTING, False):
                    progress._spark_since = perf_counter()
                if record.levelno >= logging.WARNING:
                    console.print(Text(self.format(record)), soft_wrap=True)

        made = Above()
        made.setFormatter(handler.formatter)
        return made


def _is_console(handler: logging.Handler) -> bool:
    return isinstance(handler, logging.StreamHandler) and not isinstance(handler, logging.FileHandler)


def _word(project: Project, name: TableName) -> str:
    """What lands for a table: files or extracts; nothing of a derived table or a stream."""
    from kedro_lakehouse.config.sources import StreamSourceConfig

    bound = project.bind(name)
    if bound.declared_source is None or isinstance(bound.source_config, StreamSourceConfig):
        return ""
    return "extract" if bound.source_config.type == "extract" else "file"


def _line(name: str, work: _TableWork) -> str:
    """What is done for one table."""
    now = perf_counter()
    parts = [f"{name}: {', '.join(work.at_work)}"]
    done, at_work = work.files
    total = max(work.total[0] if work.total else 0, done + at_work)
    if work.word and total:
        parts.append(f"{done + at_work:,} of {counted(total, work.word)}")
    if work.rows:
        parts.append(f"{work.rows:,} rows")
    if work.begun is not None:
        parts.append(_lasting(now - work.begun))
    return " · ".join(parts)


def _lasting(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), _A_MINUTE)
    return f"{minutes} min {rest:02} s" if minutes else f"{rest} s"
