"""A full load of TPC-H's orders and lineitem into change log, current and history, beside a bare script.

Usage: ``.venv/bin/python bench/bulk.py [--scale 1] [--tables orders lineitem] [--rounds 1] [--events]``.

Each side runs in a process of its own, with the same settings of Spark; the seconds begin when its Spark is
there. The script writes the same three tables by three queries: it checks nothing, and must not crash. Exits
1 where a table of ours has another number of rows than the file.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import duckdb
from lake import ROOT, BenchProject, event_log, load, print_machine
from pyspark.sql import functions as F

from kedro_lakehouse.names import TableName

KEYS = {"orders": ["o_orderkey"], "lineitem": ["l_orderkey", "l_linenumber"]}
SOURCES = {"tpch": {"type": "dms", "path": "${globals:landing}", "file_format": "parquet", "max_files": 1}}


def land(landing: Path, scale: float, tables: list[str]) -> dict[str, int]:
    """Make the full loads, once; the number of rows of each."""
    counts = {}
    for name in tables:
        file = landing / name / "LOAD00000001.parquet"
        if not file.exists():
            file.parent.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory() as folder:
                tool = str(Path(sys.executable).with_name("tpchgen-cli"))
                asked = [
                    "parquet", "-s", str(scale), f"--tables={name}", f"--output-dir={folder}", "--quiet",
                ]  # fmt: skip
                subprocess.run([tool, *asked], check=True)
                # Written anew, since the generator notes an Arrow type that DMS does not have.
                duckdb.execute(f"COPY (FROM '{folder}/{name}.parquet') TO '{file}' (FORMAT parquet)")
        counts[name] = duckdb.sql(f"SELECT count(*) FROM '{file}'").fetchall()[0][0]
    return counts


def ours(bench: BenchProject, tables: list[str]) -> dict[str, float]:
    """Run our pipelines; the seconds of the run."""
    bench.open()
    begun = time.perf_counter()
    project = bench.run("ingestion", "cdc_merge", "scd2")
    taken = time.perf_counter() - begun
    rows = {
        f"rows of {name}{role}": project.catalog.rows(TableName("tpch", f"{name}{role}")) or 0
        for name in tables
        for role in ("_changes", "", "_history")
    }
    return {"seconds": taken} | rows


def script(bench: BenchProject, tables: list[str]) -> dict[str, float]:
    """Write the same tables by three queries each."""
    session = bench.open().session
    session.sql("CREATE NAMESPACE IF NOT EXISTS lake.plain")
    begun = time.perf_counter()
    for name in tables:
        rows = session.read.parquet(str(bench.landing / name / "LOAD00000001.parquet"))
        order = F.struct(F.lit("LOAD").alias("file"), F.col("_metadata.row_index").alias("row"))
        facts = {"_op": F.lit("upsert"), "_order": order, "_time": F.current_timestamp(), "_batch": F.lit(1)}
        log = rows.withColumns(facts)
        log.writeTo(f"lake.plain.{name}_changes").create()
        events = session.table(f"lake.plain.{name}_changes")
        events.drop("_op", "_time", "_batch").writeTo(f"lake.plain.{name}").create()
        versions = events.drop("_op", "_batch", "_time", "_order").withColumns(
            {"_order_from": F.lit(1), "effective_from": F.current_timestamp(), "is_current": F.lit(True)}
        )
        versions.writeTo(f"lake.plain.{name}_history").create()
    return {"seconds": time.perf_counter() - begun}


def measured(side: str, folder: Path, asked: argparse.Namespace) -> dict[str, float]:
    """What one side gives, in a new process on an empty lake."""
    words = [sys.executable, __file__, "--side", side, "--folder", str(folder), "--tables", *asked.tables]
    done = subprocess.run(words, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--tables", nargs="+", default=["orders", "lineitem"])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--events", action="store_true", help="write Spark's event log to .bench/events")
    parser.add_argument("--side")
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    tables = {f"tpch.{name}": {"source": "tpch", "keys": KEYS[name], "history": {}} for name in asked.tables}
    if asked.side:
        bench = BenchProject(asked.folder)
        print(json.dumps((ours if asked.side == "ours" else script)(bench, asked.tables)))
        return 0
    spark = event_log(ROOT / ".bench/events") if asked.events else None
    kept = ROOT / f".bench/bulk-{asked.scale:g}/landing"
    counts = land(kept, asked.scale, asked.tables)
    wrong, best = [], dict[str, float]()
    for turn in range(asked.rounds):
        for side in ("script", "ours"):
            with tempfile.TemporaryDirectory(prefix="bulk_", dir=kept.parent) as folder:
                bench = BenchProject(Path(folder)).write(SOURCES, tables, spark)
                bench.landing.rmdir()
                bench.landing.symlink_to(kept)
                found = measured(side, Path(folder), asked)
            seconds = found.pop("seconds")
            best[side] = min(seconds, best.get(side, seconds))
            wrong += [what for what, rows in found.items() if rows != counts[_name(what)]]
            print(
                f"| {turn + 1} | {side} | {sum(counts.values()):,} rows | {seconds:.1f} s | load {load()} |"
            )
    print(f"ours / script: {best['ours'] / best['script']:.2f}; wrong: {wrong or 'none'}")
    print_machine(BenchProject(kept.parent / "machine").write(SOURCES, tables).open())
    return 1 if wrong else 0


def _name(what: str) -> str:
    return what.removeprefix("rows of ").partition("_")[0]


if __name__ == "__main__":
    os.environ.setdefault("KEDRO_LOGGING_CONFIG", str(ROOT / "conf/logging.yml"))
    sys.exit(main())
