"""The log of one run: its lines on the console, and a file of its own."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, Self

from kedro_lakehouse.logs.context import RunContext, turn_to
from kedro_lakehouse.logs.lines import JsonFormatter, PrefixedFormatter
from kedro_lakehouse.logs.place import PYTHON_LINES, LogPlace
from kedro_lakehouse.logs.scheduler import SchedulerRun, fit
from kedro_lakehouse.private import private_file, private_folder

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from kedro_lakehouse.project import Project

logger = logging.getLogger(__name__)

FORMAT: Final = "KEDRO_LAKEHOUSE_LOG_FORMAT"
"""The switch: ``json`` makes console lines JSON objects; ``text`` is the default."""
_KEPT_RUNS: Final = 100
_LARGEST: Final = 20 * 1024**2


class RunLog:
    """Adds a run's context to each log line while it is open; after closing, logging is as it was before.

    The lines go to the console as they are configured (with the scheduler's id before them, if there is
    one; as JSON objects where ``KEDRO_LAKEHOUSE_LOG_FORMAT`` is ``json``), and as JSON lines to a file of
    the run, at most 20 MB, of which those of the last 100 runs are kept. Where logs are kept in object
    storage, the file is written in a temporary folder and uploaded when the log is closed.
    """

    def __init__(self, project: Project, run_params: Mapping[str, Any]) -> None:
        """Find out what the run is part of; nothing is opened."""
        scheduled = SchedulerRun.of(run_params.get("runtime_params") or {}, os.environ)
        named = run_params.get("pipeline_names") or [run_params.get("pipeline_name") or "__default__"]
        self._project, self._scheduled = project, scheduled is not None
        self.context = RunContext(
            run_id=project.run_id,
            correlation_id=scheduled.correlation_id if scheduled else project.run_id,
            pipeline=fit("+".join(named)),
        )
        self._place: LogPlace | None = None
        self._file: logging.Handler | None = None
        self._before: list[tuple[logging.Handler, logging.Formatter | None]] = []

    def open(self) -> Self:
        """Start to add the context to lines, and set the project's run, which its commits and jobs name."""
        root = logging.getLogger()
        self._before = [(handler, handler.formatter) for handler in root.handlers]
        if os.environ.get(FORMAT, "text").lower() == "json":
            console = logging.StreamHandler(sys.stderr)
            console.setFormatter(JsonFormatter(self.context))
            root.handlers[:] = [console]
        elif self._scheduled:
            for handler, formatter in self._before:
                handler.setFormatter(PrefixedFormatter(self.context.correlation_id, formatter))
        if "://" not in self._project.lakehouse:
            private_folder(Path(self._project.lakehouse))
        self._place = LogPlace(self._project.logs)
        _prune(self._place)
        folder = self._project.log_folder = self._place.writing_folder()
        self._file = _BoundedFile(folder / f"{self.context.run_id}{PYTHON_LINES}")
        self._file.setFormatter(JsonFormatter(self.context))
        root.addHandler(self._file)
        turn_to()
        self._project.run = self.context
        ours = logging.getLogger("kedro_lakehouse")
        if ours.level == logging.NOTSET:  # a project whose logging.yml does not configure this package
            ours.setLevel(logging.INFO)
        logger.info(
            "Run %s: %s, environment %s", self.context.run_id, self.context.pipeline, self._project.env
        )
        return self

    def close(self) -> None:
        """Set logging back to what it was."""
        turn_to()
        self._project.run = None
        self._project.unlabel()
        root = logging.getLogger()
        root.handlers[:] = [handler for handler, _ in self._before]
        for handler, formatter in self._before:
            handler.setFormatter(formatter)
        if self._file is not None:
            self._file.close()
            self._file = None
        folder, self._project.log_folder = self._project.log_folder, None
        if self._place is not None and folder is not None:
            try:
                self._place.take(folder)
            except OSError as error:  # the run is done: a problem with its log must not fail it
                logger.warning("The log stays in %s: %s", folder, type(error).__name__)

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(self, *_: object) -> None:
        self.close()


class _BoundedFile(logging.FileHandler):
    """A file that says in its last line that it is full, and takes no more."""

    def __init__(self, path: Path) -> None:
        super().__init__(private_file(path), encoding="utf-8")
        self._full = False

    def emit(self, record: logging.LogRecord) -> None:
        if self._full:
            return
        if self.stream is not None and self.stream.tell() > _LARGEST:
            self._full = True
            text = "The log is full: later lines are not kept."
            record = logger.makeRecord(logger.name, logging.WARNING, __file__, 0, text, (), None)
        super().emit(record)


def _prune(place: LogPlace) -> None:
    """Delete the files of all but the last runs; a run's id starts with its time."""
    names = [name for name in place.names() if ".jsonl" in name]
    kept = sorted({_run_of(name) for name in names}, reverse=True)[: _KEPT_RUNS - 1]
    place.remove([name for name in names if _run_of(name) not in kept])


def _run_of(name: str) -> str:
    return name.partition(".")[0]
