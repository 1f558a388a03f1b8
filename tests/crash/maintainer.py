"""Keep a project's tables in order again and again, without leases, while others write them.

Usage: ``python maintainer.py PROJECT``. It ends when there is a file ``stop`` in the project's folder.
"""

from __future__ import annotations

import sys
from pathlib import Path

from crash.shop import lease_nothing
from harness.project import TemporaryProject


def main(folder: str) -> None:
    lease_nothing()
    project = TemporaryProject(Path(folder))
    while not (project.path / "stop").exists():
        for table, error in project.attempt("maintenance").failed.items():
            print(table, type(error).__name__, error, flush=True)  # noqa: T201


if __name__ == "__main__":
    main(*sys.argv[1:])
