"""Erase a subject, and kill the whole process group, JVM included, at one of the points that it passes.

Usage: ``python erase_until.py PROJECT SUBJECT POINT``. Points are the phases of its commits, and the begin
and end of all that it does to files. With POINT 0 nothing is killed, and the derived tables follow; then it
prints, as JSON, how many points were passed, and the rows of all stored tables.
"""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
from contextlib import redirect_stdout
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.erasures import STORED, rows
from harness.project import TemporaryProject

from kedro_lakehouse.erasure import erase, in_place
from kedro_lakehouse.project import Project, activate

if TYPE_CHECKING:
    from collections.abc import Callable

TO_FILES = ((in_place, "replace_file"), (erase, "_purge"), (erase, "search_files"))
"""What an erasure does to files, or with them."""


class Points(logging.Handler):
    """Counts the points that are passed, and kills its own process group at one of them."""

    def __init__(self, last: int) -> None:
        super().__init__()
        self.last, self.passed = last, 0

    def emit(self, record: logging.LogRecord) -> None:
        if record.__dict__["stage"] == "erasure":
            self.one_more()

    def one_more(self) -> None:
        self.passed += 1
        if self.passed == self.last:
            os.killpg(os.getpgrp(), signal.SIGKILL)

    def around(self, work: Callable[..., Any]) -> Callable[..., Any]:
        """The same work, with a point before it and one after it."""

        @wraps(work)
        def counted(*given: Any, **named: Any) -> Any:
            self.one_more()
            done = work(*given, **named)
            found = list(done) if work.__name__ == "_purge" else done  # a generator works when it is asked
            self.one_more()
            return found

        return counted


def main(folder: str, subject: str, last: str) -> None:
    points = Points(int(last))
    for module, name in TO_FILES:
        setattr(module, name, points.around(getattr(module, name)))
    phases = logging.getLogger("kedro_lakehouse.phase")
    phases.setLevel(logging.DEBUG)
    phases.addHandler(points)
    os.chdir(folder)
    evidence = erase.erase(activate(Project.load(str(Path(folder) / "conf"), None)), [subject])
    assert evidence.is_done, (evidence.found, evidence.pending)
    if points.last == 0:
        project = TemporaryProject(Path(folder))
        with redirect_stdout(sys.stderr):
            project.run("ingestion", "cdc_merge", "scd2")
        found = {table: rows(project, table) for table in STORED}
        sys.stdout.write(json.dumps({"passed": points.passed, "rows": found}))


if __name__ == "__main__":
    main(*sys.argv[1:])
