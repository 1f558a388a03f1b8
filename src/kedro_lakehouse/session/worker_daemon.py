"""Spark's daemon of Python workers, without Spark's own archives on its path.

A worker drops the finders of its path before each task, and Python then reads the directory of every archive
on it again: of pyspark.zip, of py4j and of Spark's core it took longer than most tasks. The packages in those
archives are installed as files as well, beside the Python that runs this.

Spark starts it by ``spark.python.daemon.module`` (:func:`kedro_lakehouse.session.spark.get_session`).
"""

from __future__ import annotations

import sys
from pathlib import PurePath

_ARCHIVES = ("pyspark*.zip", "py4j-*.zip", "spark-core_*.jar")


def main() -> None:
    """Serve Spark until it closes this process's input."""
    sys.path[:] = [entry for entry in sys.path if not any(map(PurePath(entry).match, _ARCHIVES))]
    sys.path_importer_cache.clear()  # it holds the archives' finders, too
    from pyspark.daemon import manager

    manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
