"""Land files one after the other, and run a project after each, while other processes do the same.

Usage: ``python writer.py PROJECT WRITER WRITERS FILES [--leased | --without-lease | --maintained]``. Prints
a line for each commit; the first error ends it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from crash.shop import land, lease_nothing
from harness.project import TemporaryProject


def main(folder: str, writer: int, writers: int, files: int, way: str) -> None:
    if way == "--without-lease":
        lease_nothing()
    project = TemporaryProject(Path(folder))
    for number in range(files):
        land(project, writers * number + writer, f"w{writer}.{number}")
        for report in project.run():
            print(report.table, report.stage, report.batch, flush=True)  # noqa: T201


if __name__ == "__main__":
    given, *numbers, how = sys.argv[1:]
    main(given, *map(int, numbers), how)
