"""Work on a project step by step: the test sends a word, the process works until the next phase of a commit.

Usage: ``python gated.py PROJECT``. The words, one a line: what to do (a name in ``DOING``), or ``go`` at a
phase. It prints ``at PHASE STAGE`` where it stops, ``done`` at the end, or what failed. It leases nothing.
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from crash.shop import TABLES, lease_nothing
from harness.project import TemporaryProject

from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TextIO


class Gate(logging.Handler):
    """Stops whoever passes a phase until it is opened; the other threads of the run wait at theirs."""

    def __init__(self, tell: TextIO) -> None:
        super().__init__()
        self._tell, self._one = tell, threading.Lock()

    def createLock(self) -> None:  # noqa: N802 - logging's own name
        """None but our own."""
        self.lock = None

    def emit(self, record: logging.LogRecord) -> None:
        with self._one:
            print("at", record.__dict__["phase"], record.__dict__["stage"], file=self._tell, flush=True)
            assert sys.stdin.readline() == "go\n"


def rebuild(project: TemporaryProject) -> None:
    """Give up all that is stored, and ingest the landed files anew."""
    from kedro_lakehouse.operations.rebuild import begin_again
    from kedro_lakehouse.project import Project

    opened = Project.load(str(project.path / "conf"), None)
    for table in TABLES:
        begin_again(opened.bind(TableName(*table.split("."))))
    project.run()


DOING: dict[str, Callable[[TemporaryProject], Any]] = {
    "run": lambda project: project.run(),
    "maintain": lambda project: project.attempt("maintenance"),
    "rebuild": rebuild,
}


def main(folder: str) -> None:
    with os.fdopen(os.dup(1), "w") as tell:
        os.dup2(2, 1)  # what a run prints belongs elsewhere
        lease_nothing()
        phases = logging.getLogger("kedro_lakehouse.phase")
        phases.setLevel(logging.DEBUG)
        phases.addHandler(Gate(tell))
        project = TemporaryProject(Path(folder))
        for line in sys.stdin:
            try:
                DOING[line.strip()](project)
                print("done", file=tell, flush=True)
            except Exception as error:  # noqa: BLE001 - whatever it is, the schedule found it
                print("failed", repr(error), file=tell, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
