"""What a second worker of a Spark cluster saves: a full load of TPC-H's orders, and a batch of 10 % of it.

Usage: ``.venv/bin/python bench/cluster.py [--scale 0.5] [--rounds 1]``.

A master and one worker, then two, each with one core, run as processes on this machine, and ``kedro run``
beside them. The same work is done for another table first, so that the executors are warm. Stage time is the
time in which at least one stage was at work, by Spark's event log: what more workers can make shorter. The
driver plans and commits in the rest. Task time is that of all tasks together: it grows where workers, driver
and Java's compilers share too few cores. Exits 1 where the tables differ with the number of workers.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lake import ROOT, BenchProject, event_log, load, print_machine
from spark_jobs import Log
from tpch import SOURCES, land_changes, land_full_load

sys.path.append(str(ROOT / "tests"))

from harness.cluster import standalone

from kedro_lakehouse.names import TableName

TABLES = {
    f"tpch.{name}": {"source": "tpch", "keys": ["o_orderkey"], "history": {}} for name in ("warm", "orders")
}
SHARE = 0.1
STEPS = {"full load": "LOAD*", "10 % batch": "2026*"}
ROLES = ("_changes", "", "_history")


def settings(url: str) -> dict[str, str]:
    """The settings of conf/cluster, on one machine."""
    return {
        "spark.master": url, "spark.driver.bindAddress": "127.0.0.1", "spark.executor.memory": "2g",
        "spark.sql.shuffle.partitions": "16",
    }  # fmt: skip


def work(folder: Path, files: Path) -> None:
    """Land and run each step, first for the table that warms up; print its times and its rows."""
    bench, found = BenchProject(folder), []
    bench.open()
    for table in ("warm", "orders"):
        (bench.landing / table).mkdir()
    for table in ("warm", "orders"):
        for step, pattern in STEPS.items():
            for file in files.glob(f"orders/{pattern}"):
                (bench.landing / table / file.name).hardlink_to(file)
            begun = time.time()
            project = bench.run("ingestion", "cdc_merge", "scd2")
            rows = [project.catalog.rows(TableName("tpch", f"{table}{role}")) for role in ROLES]
            found.append({"table": table, "step": step, "begun": begun, "ended": time.time(), "rows": rows})
    project.session.stop()
    print(json.dumps(found))


def measured(files: Path, workers: int) -> list[tuple[str, float, float, float, list[int]]]:
    """For each step its wall time, stage time and task time, and the rows of the tables after it."""
    with tempfile.TemporaryDirectory(prefix="cluster_", dir=files.parent) as made:
        folder = Path(made)
        with standalone(folder / "cluster", workers=workers) as cluster:
            log = folder / "events"
            BenchProject(folder).write(SOURCES, TABLES, settings(cluster.url) | event_log(log))
            words = [sys.executable, __file__, "--work", str(folder), str(files)]
            done = subprocess.run(words, check=True, stdout=subprocess.PIPE, text=True)
        (events,) = log.iterdir()
        spark = Log.read(events)
    return [
        (
            f["step"],
            f["ended"] - f["begun"],
            spark.busy_seconds(f["begun"], f["ended"]),
            spark.task_seconds(f["begun"], f["ended"]),
            f["rows"],
        )
        for f in json.loads(done.stdout.splitlines()[-1])
        if f["table"] == "orders"
    ]


def main() -> int:
    """Measure one worker and two."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.5)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--work", type=Path, nargs=2)
    asked = parser.parse_args()
    if asked.work:
        work(*asked.work)
        return 0
    files = ROOT / f".bench/cluster-{asked.scale:g}/landing"
    rows = land_full_load(files, asked.scale)
    (events,) = land_changes(files, rows, [SHARE])
    best: dict[tuple[str, int], float] = {}
    same: set[str] = set()
    print(f"| step ({rows:,} rows, {events:,} events) | workers | wall, s | stages, s | tasks, s | load |")
    print("| --- | --- | --- | --- | --- | --- |")
    for _ in range(asked.rounds):
        for workers in (1, 2):
            for step, wall, stages, tasks, counts in measured(files, workers):
                print(
                    f"| {step} | {workers} | {wall:.1f} | {stages:.1f} | {tasks:.1f} | {load()} |", flush=True
                )
                best[step, workers] = min(stages, best.get((step, workers), stages))
                same.add(f"{step}: {counts}")
    for step in STEPS:
        print(f"{step}: stage time of one worker to that of two {best[step, 1] / best[step, 2]:.2f}")
    print("rows: " + "; ".join(sorted(same)))
    print_machine(BenchProject(files.parent / "machine").write(SOURCES, TABLES).open())
    return int(len(same) != len(STEPS))


if __name__ == "__main__":
    sys.exit(main())
