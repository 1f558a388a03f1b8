"""What keeping a history costs: real extracts, a large dimension with late events, and growing tables.

Usage: ``.venv/bin/python bench/history.py [--parts sp500 dimension curve] [--keys 1000000]
[--batches 20] [--rows 100000 1000000 10000000]``. Sizes that take some minutes are the default; ``--keys
50000 --batches 4 --rows 20000 200000 --extracts 30`` shows that it works in one or two.
Exits 1 where a history, taken as of a time, is not what DuckDB computes from the landed files.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import dimension
from contenders import same_rows
from dimension import Changes, as_of, oracle_as_of
from lake import ROOT, BenchProject, State, load, print_machine
from plain_history import rewrite_history

from kedro_lakehouse.datasets import PendingDataset, TableDataset
from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import active_project

TABLE = "shop.customer"
EXTRACTS = {
    "sp500": {
        "type": "extract", "path": "${globals:landing}/sp500", "pattern": "*_constituents.csv.gz",
        "extract_time": {"from": "name", "pattern": "%Y-%m-%dT%H%M%SZ"}, "file_format": "csv",
    },
}  # fmt: skip
CONSTITUENTS = {
    "sp500.constituents": {
        "source": "sp500", "keys": ["Symbol"], "current": True, "history": True,
        "rename": {"Name": "Security", "Company": "Security", "Sector": "GICS Sector"},
    },
}  # fmt: skip


def commit_history(table: str) -> tuple[float, dict[str, int]]:
    """Take the pending batches into the history; seconds, and what the commit counted."""
    begun = time.perf_counter()
    pending = PendingDataset(table=table, target="history").load()
    TableDataset(table=table, kind="history").save(pending)
    return time.perf_counter() - begun, active_project().reports[-1].counts


def extracts(folder: Path, limit: int) -> None:
    """The S&P 500's versions: all but five in one run, then one run each."""
    bench = BenchProject(folder).write(EXTRACTS, CONSTITUENTS)
    landed = bench.landing / "sp500/constituents"
    landed.mkdir(parents=True)
    files = sorted((ROOT / "data/01_raw/sp500/constituents").glob("*.csv.gz"))[-limit:]
    backlog, single = files[:-5], files[-5:]
    bench.open()
    print("\n| extracts in a run | s, whole run | ms an extract | opened | closed | rewritten |")
    print("| --- | --- | --- | --- | --- | --- |")
    for group in (backlog, *[[file] for file in single]):
        for file in group:
            shutil.copy(file, landed)
        begun = time.perf_counter()
        reports = bench.run("ingestion", "cdc_merge", "scd2").reports
        taken = time.perf_counter() - begun
        counts = next((r.counts for r in reports if r.stage == "history"), {})
        told = " | ".join(str(counts.get(name, 0)) for name in ("opened", "closed", "rewritten"))
        print(f"| {len(group)} | {taken:.1f} | {taken / len(group) * 1000:.0f} | {told} |", flush=True)


def large_dimension(folder: Path, keys: int, batches: int, rewrites: int) -> bool:
    """Batches of 0.5 %, a tenth of their events late; beside it the whole dimension written again."""
    bench = BenchProject(folder).write(dimension.SOURCES, dimension.TABLES)
    dimension.land_full_load(bench.landing, keys)
    project = bench.run("ingestion", "scd2")
    changes, plain = Changes(bench.landing, keys), f"lake.{TABLE}_plain"
    project.session.table(f"lake.{TABLE}_history").writeTo(plain).using("iceberg").create()
    history_table = TableName(*f"{TABLE}_history".split("."))
    loaded = {s.snapshot_id for s in project.catalog.find(history_table).snapshots()}
    taken, counted, rewritten = [], [], []
    for number in range(1, batches + 1):
        changes.land(round(keys * 0.005), late=0.1)
        project = bench.run("ingestion")
        seconds, counts = commit_history(TABLE)
        taken.append(seconds)
        counted.append(counts)
        if number <= rewrites:
            events = project.session.table(f"lake.{TABLE}_changes").where(f"_batch = {number + 1}")
            begun = time.perf_counter()
            rewrite_history(project.session, events, plain, ["id"])
            rewritten.append(time.perf_counter() - begun)
    found = project.catalog.find(history_table)
    new = [s.summary.additional_properties for s in found.snapshots() if s.snapshot_id not in loaded]
    written = sum(int(facts.get("added-records", 0)) for facts in new)
    total = {
        n: sum(c.get(n, 0) for c in counted) for n in ("opened", "closed", "rewritten", "removed", "late")
    }
    events_in = batches * round(keys * 0.005)
    history = found.scan().to_arrow()
    right = {}
    for share in (0.0, 0.25, 0.5, 0.75, 1.0):
        seconds = changes.seconds_after(share)
        right[share] = same_rows(as_of(history, seconds), oracle_as_of(bench.landing, seconds), "id")
    print(
        "\n| keys | batches | events a batch | way | best, ms | median, ms | rows written an event | as of |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    best, middle = min(taken) * 1000, sorted(taken)[len(taken) // 2] * 1000
    verdict = "equal" if all(right.values()) else f"DIFFERS {right}"
    print(f"| {keys:,} | {batches} | {events_in // batches:,} | ours | {best:.0f} | {middle:.0f} "
          f"| {written / events_in:.2f} | {verdict} |")  # fmt: skip
    if rewritten:
        best, middle = min(rewritten) * 1000, sorted(rewritten)[len(rewritten) // 2] * 1000
        whole = keys / (events_in / batches)
        print(f"| {keys:,} | {rewrites} | {events_in // batches:,} | full outer join, rewrite | {best:.0f} "
              f"| {middle:.0f} | {whole:.0f} or more | late events lost |")  # fmt: skip
    print(f"\ncounted: {total}; each batch, ms: {', '.join(f'{t * 1000:.0f}' for t in taken)}")
    return all(right.values())


def curve(folder: Path, sizes: list[int], events: int, repetitions: int) -> None:
    """The same number of events on tables of several sizes, keys anywhere and keys side by side."""
    print("\n| rows | events | keys | best, s | to the smaller table | all, s |")
    print("| --- | --- | --- | --- | --- | --- |")
    before: dict[str, float] = {}
    for rows in sizes:
        bench = BenchProject(folder / str(rows)).write(dimension.SOURCES, dimension.TABLES)
        dimension.land_full_load(bench.landing, rows)
        project = bench.run("ingestion", "scd2")
        base = State.kept(project, f"{TABLE}_history", bench.folder / "base.json")
        changes = Changes(bench.landing, rows)
        for number, kind in enumerate(("scattered", "clustered"), start=2):
            changes.land(events, keys=kind)
            bench.run("ingestion")
            taken = []
            for _ in range(repetitions + 1):
                base.restore(batch=number - 1)
                taken.append(commit_history(TABLE)[0])
            best = min(taken[1:])  # the first one warms up
            ratio = f"{best / before[kind]:.2f}" if kind in before else ""
            before[kind] = best
            told = ", ".join(f"{t:.2f}" for t in taken[1:])
            print(f"| {rows:,} | {events:,} | {kind} | {best:.2f} | {ratio} | {told} |", flush=True)


def main() -> int:
    """Run the parts that are asked for, each in a temporary folder."""
    parser = argparse.ArgumentParser(description="What keeping a history costs.")
    parser.add_argument("--parts", nargs="+", default=["sp500", "dimension", "curve"])
    parser.add_argument("--extracts", type=int, default=189, help="how many of the bundled extracts")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--batches", type=int, default=20)
    parser.add_argument("--rewrites", type=int, default=3, help="batches that the plain script does too")
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument("--events", type=int, default=5_000)
    parser.add_argument("--repetitions", type=int, default=3)
    options = parser.parse_args()
    print(f"load average before: {load()}", flush=True)
    right = True
    (ROOT / ".bench").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / ".bench") as made:
        folder = Path(made)
        if "sp500" in options.parts:
            extracts(folder / "sp500", options.extracts)
        if "dimension" in options.parts:
            right = large_dimension(folder / "dimension", options.keys, options.batches, options.rewrites)
        if "curve" in options.parts:
            curve(folder / "curve", options.rows, options.events, options.repetitions)
        print(f"\nload average after: {load()}")
        project: Any = active_project()
        print_machine(project, "pyiceberg", "duckdb")
        project.session.stop()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
