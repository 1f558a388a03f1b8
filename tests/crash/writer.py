"""Land files one after the other, and run a project after each, while other processes do the same.

Usage: ``python writer.py PROJECT WRITER WRITERS FILES [--leased | --without-lease | --maintained]``. Prints
a line for each commit; the first error ends it. Without its lease a run plans beside the others', as where
no file can be locked: only the commits decide.
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
TABLES: dict[str, dict[str, Any]] = {
    "shop.item": {"source": "shop", "keys": ["id"], "history": True},
    "shop.line": {"source": "shop", "keys": [], "write": "append"},
}
SCHEMA = {
    "Op": pa.string(), "id": pa.int64(), "name": pa.string(), "ts": pa.timestamp("us"), "seq": pa.string(),
}  # fmt: skip


class NoLease:
    """What a run has where nothing can be leased: it believes that it works alone."""

    def check(self) -> None:
        """Believe it."""

    confirm = check


def file_of(writer: int, writers: int, number: int) -> tuple[str, list[dict[str, object]]]:
    """A file's name and rows: an update of each key, of an order that no other file has."""
    seq = writers * number + writer
    at = dt.datetime(2026, 1, 1) + dt.timedelta(minutes=seq)  # noqa: DTZ001 - zone-less, as DMS writes it
    rows = [
        {"Op": "U", "id": key, "name": f"w{writer}.{number}", "ts": at, "seq": f"{seq:06}"}
        for key in range(KEYS)
    ]
    return f"20260101-{seq:09}.parquet", rows


def main(folder: str, writer: str, writers: str, files: str, way: str) -> None:
    from kedro_lakehouse.project import Project

    if way == "--without-lease":
        Project.lease = lambda *_: contextlib.nullcontext(NoLease())  # type: ignore[method-assign]
    project = TemporaryProject(Path(folder))
    for number in range(int(files)):
        name, rows = file_of(int(writer), int(writers), number)
        for table in TABLES:
            hidden = project.path / f"{table}-{name}"
            write_parquet(hidden, rows, SCHEMA)
            hidden.rename(project.landing / "shop" / table.split(".")[1] / name)
        for report in project.run():
            print(report.table, report.stage, report.batch, flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:6])
