"""Resolve the JVM jars of an environment once, with progress: ``python -m kedro_lakehouse.cli.jars``."""

from __future__ import annotations

import sys
from time import perf_counter

from kedro_lakehouse.errors import LakehouseError


def main() -> int:
    """Start a session, which fetches what is missing, and stop it."""
    from kedro_lakehouse.project import found_project
    from kedro_lakehouse.session.spark import get_session, resolved_jars

    project = found_project()
    listed = resolved_jars(project.spark_conf)
    if listed is None or listed.is_file():
        return 0
    sys.stderr.write("Fetching the JVM jars (once) into the project's folder ...\n")
    begun = perf_counter()
    try:
        get_session(project.spark_conf).stop()
    except LakehouseError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stderr.write(f"Jars are there ({perf_counter() - begun:.0f} s).\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
