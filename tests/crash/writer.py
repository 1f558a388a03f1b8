"""Land files one after the other, and run a project after each, while another process does the same.

Usage: ``python writer.py PROJECT WRITER FILES [--leased | --without-lease | --maintained]``. Prints a line
for each commit. Without its lease a run plans beside the other's, as where no file can be locked: only the
commits decide. Who writes beside a maintainer without leases (``maintainer.py``) may lose races to it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
from harness.project import TemporaryProject, write_parquet

KEYS = 10
SCHEMA = {
    "Op": pa.string(), "id": pa.int64(), "name": pa.string(), "ts": pa.timestamp("us"), "seq": pa.string(),
}  # fmt: skip


class NoLease:
    """What a run has where nothing can be leased: it believes that it works alone."""

    def check(self) -> None:
        """Believe it."""

    confirm = check


def file_of(writer: int, number: int) -> tuple[str, list[dict[str, object]]]:
    """A file's name and rows: an update of each key, of an order that no other file has."""
    seq = 2 * number + writer
    at = dt.datetime(2026, 1, 1) + dt.timedelta(minutes=seq)  # noqa: DTZ001 - zone-less, as DMS writes it
    rows = [
        {"Op": "U", "id": key, "name": f"w{writer}.{number}", "ts": at, "seq": f"{seq:06}"}
        for key in range(KEYS)
    ]
    return f"20260101-{seq:09}.parquet", rows


def main(folder: str, writer: str, files: str, way: str) -> None:
    from kedro_lakehouse.project import Project

    if way == "--without-lease":
        Project.lease = lambda *_: contextlib.nullcontext(NoLease())  # type: ignore[method-assign]
    project = TemporaryProject(Path(folder))
    for number in range(int(files)):
        name, rows = file_of(int(writer), number)
        hidden = project.path / f"{name}.{writer}"
        write_parquet(hidden, rows, SCHEMA)
        hidden.rename(project.landing / "shop/item" / name)
        for report in taken_in(project, races=way != "--leased"):
            print(report.stage, report.batch, flush=True)  # noqa: T201


def taken_in(project: TemporaryProject, *, races: bool) -> list[Any]:
    """Run until no other run was faster; the reports of the commits.

    Where others have no lease a run may lose a race in many ways, and its table fails until the next run.
    """
    reports: list[Any] = []
    for _ in range(50):
        outcome = project.attempt()
        reports += outcome.reports
        if not outcome.failed:
            return reports
        if not races:
            raise next(iter(outcome.failed.values()))
    raise TimeoutError


if __name__ == "__main__":
    main(*sys.argv[1:5])
