"""Pull a table in processes of their own, each killed at a point.

``kill_pulls.py PROJECT TABLE LONGEST [SAP_FILE]``, where LONGEST is the seconds within which ``any`` comes.
Reads a line of JSON, the points of pullers that work at the same time, and answers with how each ended: minus
nine, or zero. ``-`` lets a puller live; ``any`` kills it at some moment. The processes are forked from this
one, so they need not import anything. SAP_FILE has the rows and the clock of an SAP that is played here.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import random
import signal
import sys
import threading
import traceback
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


def pull(folder: str, table: str, point: str, longest: float, sap_file: str | None) -> None:
    """Pull, and be killed."""
    if sap_file is not None:
        play_sap(sap_file)
    if point == "any":
        moment = random.SystemRandom().uniform(0, longest)
        dying = threading.Timer(moment, os.kill, (os.getpid(), signal.SIGKILL))
        dying.daemon = True
        dying.start()
    logging.getLogger("kedro_lakehouse.phase").addHandler(Killer(point))
    pull_now(Project.load(f"{folder}/conf", None).bind(TableName.parse(table)))


def play_sap(file: str) -> None:
    import pyrfc
    from harness.sap import FakeSap, SapField

    state = json.loads(Path(file).read_text(encoding="utf-8"))
    fields = [SapField("ID"), SapField("NAME", length=40)]
    sap = FakeSap(fields, state["rows"], name=state["table"], answer=state["answer"])
    pyrfc.Connection = lambda **_: sap


def forked(folder: str, table: str, point: str, longest: float, sap_file: str | None) -> int:
    """Begin to pull in a process of its own; its number."""
    if number := os.fork():
        return number
    try:
        pull(folder, table, point, longest, sap_file)
    except BaseException:  # noqa: BLE001 - the exit status says that it failed
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    os._exit(0)


def main(folder: str, table: str, longest: str, sap_file: str | None = None) -> None:
    bootstrap_project(Path(folder))
    for name in ("boto3", "pyarrow.parquet", "s3fs"):
        importlib.import_module(name)
    logging.getLogger("kedro_lakehouse.phase").setLevel(logging.DEBUG)
    for line in sys.stdin:
        numbers = [forked(folder, table, point, float(longest), sap_file) for point in json.loads(line)]
        ended = [os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]) for number in numbers]
        sys.stdout.write(json.dumps(ended) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
