"""Run a project and kill the whole process group, JVM included, when commits have reached their phases.

Usage: ``python kill_at.py PROJECT [--leased | --without-lease] TABLE:STAGE:PHASE ...``; with an empty TABLE,
all tables run, and the first that gets there ends them. The real save path tells its phases to a logger: a
commit waits between its phase and whatever comes next until the others are at theirs, and all die there.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from pathlib import Path

from crash.shop import lease_nothing


class Killer(logging.Handler):
    """Holds each table at its phase, and kills its own process group when all are held."""

    def __init__(self, places: list[tuple[str, str, str]]) -> None:
        super().__init__()
        self._places, self._count, self._never = set(places), threading.Lock(), threading.Event()

    def createLock(self) -> None:  # noqa: N802 - logging's own name
        """None but our own: whoever waits here lets the others come."""
        self.lock = None

    def emit(self, record: logging.LogRecord) -> None:
        said = record.__dict__
        here = {(said["table"], said["stage"], said["phase"]), ("", said["stage"], said["phase"])}
        with self._count:
            if not here & self._places:
                return
            self._places -= here
            if not self._places:
                os.killpg(os.getpgrp(), signal.SIGKILL)
        self._never.wait()


def main(project: str, way: str, *places: str) -> None:
    from kedro.framework.session import KedroSession
    from kedro.framework.startup import bootstrap_project

    from kedro_lakehouse.ops.store import OpsStore
    from kedro_lakehouse.runners import IsolatingThreadRunner

    # Each commit's row is written at once: a phase that waits for other commits would wait for ever.
    OpsStore.append_soon = OpsStore.append  # type: ignore[method-assign]
    if way == "--without-lease":
        lease_nothing()
    bootstrap_project(Path(project))
    wanted = [(table, stage, phase) for table, stage, phase in (place.split(":") for place in places)]
    logger = logging.getLogger("kedro_lakehouse.phase")
    with KedroSession.create(project_path=project) as session:
        session.load_context()
        logger.setLevel(logging.DEBUG)
        logger.addHandler(Killer(wanted))
        runner = IsolatingThreadRunner(max_workers=len(places) + 1)
        session.run(runner=runner, namespaces=[table for table, *_ in wanted if table])


if __name__ == "__main__":
    main(*sys.argv[1:])
