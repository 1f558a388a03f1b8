"""Commit batches of one row to a Delta table in S3, while another process does the same.

No run's lease is taken: both plan at once, and only the turns of the commits keep them apart.

Usage: ``python delta_writer.py PROJECT WRITER COMMITS``, of writers 0 and 1 at once. Prints a JSON object.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from pathlib import Path
from typing import Any

from harness.formats import context_of

from kedro_lakehouse.errors import CommitConflictError
from kedro_lakehouse.formats.base import Layout
from kedro_lakehouse.formats.delta.format import DeltaFormat
from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import Project
from kedro_lakehouse.testing.samples import COLUMNS, frame_of, report, state_of

NAME = TableName("shop", "raced")


def main(folder: Path, writer: int, commits: int) -> None:
    os.chdir(folder)
    lake = DeltaFormat(context_of(Project.load("conf", "aws"), f"w{writer}"))
    session = lake.maintenance._session()
    (folder / f"ready{writer}").touch()
    wait_for(folder / f"ready{1 - writer}")
    lake.create(NAME, COLUMNS, Layout())
    keys = list(range(writer * 1000, writer * 1000 + commits))
    lost = sum(committed(lake, session, key) for key in keys)
    (folder / f"done{writer}").touch()
    wait_for(folder / f"done{1 - writer}")
    rows = sorted(row["id"] for row in lake.read(NAME).collect())
    batches = [one.batch for one, _ in lake.commits(NAME)]
    print(json.dumps({"keys": keys, "rows": rows, "batches": batches, "lost races": lost}))  # noqa: T201


def committed(lake: DeltaFormat, session: Any, key: int) -> int:
    """Commit one row as the next batch; how many races were lost before."""
    lost = 0
    while True:
        state = state_of(lake, NAME)
        try:
            with lake.stage(NAME, state) as stage:
                stage.append(frame_of(session, (key, "row", 0)))
                stage.publish(report(state.batch + 1))
        except CommitConflictError:
            lost += 1
            time.sleep(random.uniform(0, 0.2))  # noqa: S311 - jitter, as a run has it
        else:
            return lost


def wait_for(path: Path) -> None:
    deadline = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < deadline, f"there is no {path.name}"
        time.sleep(0.05)


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]))
