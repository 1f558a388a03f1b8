"""Up to how many events is the small way the faster one: what the global ``small_batch`` is set by.

Usage: ``.venv/bin/python bench/small_batch.py [--rows 50000] [--sizes 10 1000 2000 5000 10000]``.

A table of so many rows, with history, gets batches of updates of each size, by the small way and by Spark in
turns, in a warm process. Prints the best of the rounds: the seconds of a whole run for that one table.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from lake import BenchProject, load, print_machine

SOURCES = {"crm": {"type": "dms", "path": "${globals:landing}", "sequence_column": "seq"}}
TABLES = {"crm.person": {"source": "crm", "entity": "person", "keys": ["id"], "history": {}}}
WAYS = {"small": 10**9, "Spark": 0}


class Bench:
    """The project, and the number of the file that lands next."""

    def __init__(self, folder: Path) -> None:
        """Write the project."""
        self.bench, self._files = BenchProject(folder).write(SOURCES, TABLES), 0

    def seconds(self, op: str, keys: range, way: str) -> float:
        """Land events of these keys, and apply them in a run."""
        self._files += 1
        number = self._files
        rows = {
            "Op": [op] * len(keys),
            "id": list(keys),
            "name": [f"name {key} {number}" for key in keys],
            "amount": [key + number for key in keys],
            "seq": [f"{number:04}{place:09}" for place in range(len(keys))],
        }
        folder = self.bench.landing / "person"
        folder.mkdir(exist_ok=True)
        pq.write_table(pa.table(rows), folder / f"20260101-{number:09}.parquet")
        self.bench.set_globals(small_batch=WAYS[way])
        begun = time.perf_counter()
        self.project = self.bench.run("ingestion", "cdc_merge", "scd2")
        return time.perf_counter() - begun


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=50_000)
    parser.add_argument("--sizes", type=int, nargs="+", default=[10, 1000, 2000, 5000, 10_000])
    parser.add_argument("--rounds", type=int, default=3)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="small_") as folder:
        bench = Bench(Path(folder))
        bench.seconds("I", range(asked.rows), "Spark")
        for way in WAYS:  # warms both
            bench.seconds("U", range(10), way)
        print(f"| events | {' | '.join(WAYS)} | load |")
        for size in asked.sizes:
            # Keys at equal distances, so that each batch touches rows of all files.
            keys = range(0, asked.rows, max(asked.rows // size, 1))[:size]
            best = {way: min(bench.seconds("U", keys, way) for _ in range(asked.rounds)) for way in WAYS}
            print(f"| {size} | {' | '.join(f'{s:.2f} s' for s in best.values())} | {load()} |", flush=True)
        print_machine(bench.project, "pysail", "pyiceberg")
    return 0


if __name__ == "__main__":
    os.environ.setdefault("KEDRO_LOGGING_CONFIG", str(Path(__file__).parents[1] / "conf/logging.yml"))
    sys.exit(main())
