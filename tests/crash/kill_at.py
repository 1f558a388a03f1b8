"""Run a project and kill the whole process group, JVM included, when one commit reaches one phase.

Usage: ``python kill_at.py PROJECT STAGE PHASE [--leased | --without-lease] [TABLE ...]``; without a table it
runs all of them. The real save path tells its phases to a logger; this process dies on hearing of its own,
between that phase and whatever comes next.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path

from crash.shop import lease_nothing


class Killer(logging.Handler):
    """Kills its own process group at one phase of one stage."""

    def __init__(self, stage: str, phase: str) -> None:
        super().__init__()
        self._wanted = (stage, phase)

    def emit(self, record: logging.LogRecord) -> None:
        if (record.__dict__.get("stage"), record.__dict__.get("phase")) == self._wanted:
            os.killpg(os.getpgrp(), signal.SIGKILL)


def main(project: str, stage: str, phase: str, way: str, *tables: str) -> None:
    from kedro.framework.session import KedroSession
    from kedro.framework.startup import bootstrap_project

    from kedro_lakehouse.runners import IsolatingThreadRunner

    if way == "--without-lease":
        lease_nothing()
    bootstrap_project(Path(project))
    logger = logging.getLogger("kedro_lakehouse.phase")
    with KedroSession.create(project_path=project) as session:
        session.load_context()
        logger.setLevel(logging.DEBUG)
        logger.addHandler(Killer(stage, phase))
        session.run(runner=IsolatingThreadRunner(), namespaces=list(tables))


if __name__ == "__main__":
    main(*sys.argv[1:])
