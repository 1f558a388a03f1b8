"""Fetch and check the JVM jars of an environment, with progress: ``python -m kedro_lakehouse.cli.jars``.

With ``--sums`` it prints the sha256 of each instead: ``make lock-jars`` pins them so.
"""

from __future__ import annotations

import sys
from time import perf_counter

from kedro_lakehouse.errors import LakehouseError


def main(words: list[str]) -> int:
    """Fetch what is missing; every jar is then there, and is the one that is pinned."""
    from kedro_lakehouse.project import found_project
    from kedro_lakehouse.session.jars import artifacts, checked_jars, known_jars, sums
    from kedro_lakehouse.session.java import require_java
    from kedro_lakehouse.session.line import require_line

    conf = found_project().spark_conf
    begun, missing = perf_counter(), not known_jars(conf)
    if missing:
        sys.stderr.write(f"Fetching {' and '.join(artifacts(conf))} (once, 10 to 60 s) ...\n")
    try:
        require_line(conf)
        require_java()
        jars = checked_jars(conf)
    except LakehouseError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if missing:
        sys.stderr.write(f"The jars are there ({perf_counter() - begun:.0f} s).\n")
    if "--sums" in words:
        sys.stdout.write("".join(f"{line}\n" for line in sums(jars)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
