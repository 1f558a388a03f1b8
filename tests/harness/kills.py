"""Runs that are killed: at a phase of a commit, and without what a killed Spark leaves behind."""

from __future__ import annotations

import contextlib
import logging
import signal
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

from harness.project import ROOT, environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from harness.project import TemporaryProject

KILL_AT = ROOT / "tests/crash/kill_at.py"


@contextlib.contextmanager
def scratch() -> Iterator[dict[str, str]]:
    """The environment of a run whose Spark leaves its temporary folders where they are removed."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        yield environment() | {"SPARK_LOCAL_DIRS": folder}


def kill_at(project: TemporaryProject, places: Mapping[str, tuple[str, str]], *, leased: bool = True) -> None:
    """Run some tables of a project in a process that kills itself when each is at its phase of a stage.

    The name of a table may be empty: all tables run, and the first that gets there ends them.
    """
    way = "--leased" if leased else "--without-lease"
    arguments = [f"{table}:{stage}:{phase}" for table, (phase, stage) in places.items()]
    command = [sys.executable, str(KILL_AT), str(project.path), way, *arguments]
    with scratch() as env:
        killed = subprocess.run(command, start_new_session=True, capture_output=True, check=False, env=env)
    assert killed.returncode == -signal.SIGKILL, killed.stderr[-2000:]


class _Stop(logging.Handler):
    """Ends the work at one phase, as far as one process can."""

    def __init__(self, stage: str, phase: str) -> None:
        super().__init__()
        self._at = (stage, phase)

    def emit(self, record: logging.LogRecord) -> None:
        if (record.__dict__.get("stage"), record.__dict__.get("phase")) == self._at:
            raise KeyboardInterrupt


@contextlib.contextmanager
def stopping(stage: str, phase: str) -> Iterator[None]:
    """While the block runs, the first commit that reaches a phase of a stage is interrupted there."""
    logger, stop = logging.getLogger("kedro_lakehouse.phase"), _Stop(stage, phase)
    level = logger.level
    logger.addHandler(stop)
    logger.setLevel(logging.DEBUG)
    try:
        yield
    finally:
        logger.removeHandler(stop)
        logger.setLevel(level)
