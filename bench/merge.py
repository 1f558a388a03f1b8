"""One merge commit of TPC-H's orders beside other ways to do the same work.

Usage: ``make bench``, or ``.venv/bin/python bench/merge.py [--scale 1] [--fractions 0.0001 0.01 0.1]``.

The base table and the batches are made once for a scale (full load, then one file of changes a
fraction) and kept in ``.bench/``; every repetition starts from that base. Timed: from the batch's
events in ``_changes`` on disk to the published table; ours audits and acknowledges in that time.
Exits 1 where a table is not the one that DuckDB computes.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import time
from typing import TYPE_CHECKING

from contenders import Contender, Contenders, same_rows
from lake import ROOT, BenchProject, State, event_log, load, print_machine
from tpch import KEY, SOURCES, TABLES, land_changes, land_full_load

if TYPE_CHECKING:
    from kedro_lakehouse.project import Project

TABLE = "tpch.orders"


def prepare(bench: BenchProject, scale: float, fractions: list[float]) -> tuple[Project, int, list[int]]:
    """Bring base table and batches into the lakehouse, once; the rows of the base, the events of each."""
    rows = land_full_load(bench.landing, scale)
    ready = bench.folder / "ready"
    if not ready.exists():
        begun = time.perf_counter()
        bench.run("ingestion", "cdc_merge")
        print(f"full load of {rows:,} rows to _changes and table: {time.perf_counter() - begun:.1f} s")
    counts = land_changes(bench.landing, rows, fractions)
    if not ready.exists():
        begun = time.perf_counter()
        bench.run("ingestion")
        print(f"{sum(counts):,} changes to _changes: {time.perf_counter() - begun:.1f} s", flush=True)
        ready.touch()
    return bench.open(), rows, counts


def measure(contenders: list[Contender], repetitions: int) -> tuple[dict[str, list[float]], dict[str, bool]]:
    """Seconds of each repetition, and whether the answer is DuckDB's; the first round only warms up.

    Every round goes through the contenders in the other direction, beginning with DuckDB's end.
    """
    seconds: dict[str, list[float]] = {c.name: [] for c in contenders}
    right: dict[str, bool] = {}
    oracle = next(c for c in contenders if c.name == "DuckDB")
    for turn in range(repetitions + 1):
        for contender in contenders if turn % 2 else contenders[::-1]:
            contender.reset()
            begun = time.perf_counter()
            contender.work()
            taken = time.perf_counter() - begun
            if turn:
                seconds[contender.name].append(taken)
            elif contender.answer and oracle.answer and contender is not oracle:
                right[contender.name] = same_rows(contender.answer(), oracle.answer(), KEY)
    return seconds, right


def report(rows: int, events: int, seconds: dict[str, list[float]], right: dict[str, bool]) -> None:
    """Print a fraction's rows of the table."""
    script = min(seconds["script"])
    for name, taken in seconds.items():
        all_of_them = ", ".join(f"{t:.2f}" for t in taken)
        answer = {True: "equal", False: "DIFFERS", None: ""}[right.get(name)]
        print(
            f"| {rows:,} | {events:,} | {name} | {min(taken):.2f} | {min(taken) / script:.2f} "
            f"| {all_of_them} | {answer} |",
            flush=True,
        )


def main() -> int:
    """Measure, and print one table of seconds and ratios."""
    parser = argparse.ArgumentParser(description="One merge commit beside other ways to do the same work.")
    parser.add_argument("--scale", type=float, default=1, help="TPC-H scale: 1 is 1.5 million rows")
    parser.add_argument("--fractions", type=float, nargs="+", default=[0.0001, 0.01, 0.1])
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="names of contenders; script and DuckDB always run")
    parser.add_argument("--fresh", action="store_true", help="make base table and batches anew")
    parser.add_argument("--events", action="store_true", help="write Spark's event log to .bench/events")
    parser.add_argument("--spark", nargs="+", default=[], metavar="KEY=VALUE", help="settings that differ")
    options = parser.parse_args()
    spread = "_".join(f"{f:g}" for f in options.fractions)
    folder = ROOT / f".bench/merge_{options.scale:g}_{spread}"
    if options.fresh:
        shutil.rmtree(folder, ignore_errors=True)
    settings = dict(setting.split("=", 1) for setting in options.spark)
    if options.events:
        settings |= event_log(ROOT / ".bench/events")
    bench = BenchProject(folder).write(SOURCES, TABLES, settings)
    print(f"load average before: {load()}", flush=True)
    project, rows, counts = prepare(bench, options.scale, options.fractions)
    print_machine(project, "pyiceberg", "duckdb", "deltalake", "pyarrow")
    base = State.kept(project, TABLE, folder / "base.json")
    contenders = Contenders(project, TABLE, KEY, folder, base)
    print("\n| rows | events | way | best, s | to the script | all, s | answer |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    wrong = False
    for number, count in enumerate(counts, start=1):
        chosen = [
            c for c in contenders.of(number + 1)
            if not options.only or c.name in {*options.only, "script", "DuckDB"}
        ]  # fmt: skip
        seconds, right = measure(chosen, options.repetitions)
        report(rows, count, seconds, right)
        wrong |= not all(right.values())
    base.restore()
    print(f"\nload average after: {load()}")
    project.session.stop()
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
