"""Pull one table and kill this process at a point: ``kill_pull.py PROJECT TABLE POINT``."""

from __future__ import annotations

import logging
import os
import signal
import sys
from pathlib import Path

from kedro.framework.startup import bootstrap_project

from kedro_lakehouse.ingestion.pulling import pull_now
from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import Project


class Killer(logging.Handler):
    """Kills this process at a point."""

    def __init__(self, point: str) -> None:
        super().__init__()
        self._point = point

    def emit(self, record: logging.LogRecord) -> None:
        if record.__dict__.get("phase") == self._point:
            os.kill(os.getpid(), signal.SIGKILL)


def main(folder: str, table: str, point: str) -> None:
    bootstrap_project(Path(folder))
    logger = logging.getLogger("kedro_lakehouse.phase")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(Killer(point))
    pull_now(Project.load(f"{folder}/conf", None).bind(TableName.parse(table)))


if __name__ == "__main__":
    main(*sys.argv[1:])
