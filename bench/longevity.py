"""Read time after many rounds of small changes, beside a table that was written at once (W3).

Usage: ``.venv/bin/python bench/longevity.py [--format iceberg] [--rounds 50] [--every 10]``; Hudi's tables
need the other line of Spark: ``.venv-spark35/bin/python bench/longevity.py --format hudi``.

Two tables with the patterns of LakeLoader at a thousandth of its sizes: a dimension of 100,000 rows of which
a random 1 % changes in every round, and a fact partitioned by date that grows in its newest partition and is
corrected in recent ones, the more recent the more often. Each round is one run of ingestion and cdc_merge.
The same rounds are run without maintenance, and with pipeline ``maintenance`` after every few rounds; each
table is read whole, and so is a copy of it that is written fresh. Exits 1 where the goal is missed.
"""

from __future__ import annotations

import argparse
import dataclasses
import datetime as dt
import shutil
import statistics
import sys
import time
from contextlib import redirect_stdout
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from lake import ROOT, BenchProject, load

from kedro_lakehouse.formats.base import Layout
from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from pathlib import Path

    from kedro_lakehouse.project import Project

GOAL: Final = 1.10
ROWS: Final = 100_000
DAYS: Final = 30
FIRST: Final = dt.date(2026, 1, 1)
SOURCES = {
    "w3": {
        "type": "changes", "path": "${globals:landing}", "pattern": "*.parquet", "file_format": "parquet",
        "op_column": "op",
    }
}  # fmt: skip
COMMON: dict[str, Any] = {"source": "w3", "keys": ["id"], "order_by": ["n"], "effective_time": "changed_at"}
TABLES = {"w3.dimension": COMMON, "w3.fact": COMMON | {"keys": ["day", "id"], "partition_by": ["day"]}}
_KEPT_BY_FORMATS: Final = {"metadata", "_delta_log", ".hoodie"}
NAMES = tuple(TableName(*name.split(".")) for name in TABLES)


def changes(ids: np.ndarray, days: np.ndarray, op: str, number: int, chance: np.random.Generator) -> pa.Table:
    """Events of one operation in one round."""
    count = len(ids)
    return pa.table(
        {
            "op": pa.array([op] * count),
            "id": pa.array(ids, pa.int64()),
            "day": pa.array(np.datetime64(FIRST) + days.astype("timedelta64[D]")),
            "n": pa.array(np.full(count, number), pa.int64()),
            "changed_at": pa.array(
                np.full(count, np.datetime64("2026-06-01T00:00:00") + number, "datetime64[us]")
            ),
            "amount": pa.array(chance.random(count)),
            "text": pa.array([f"{n:032x}" for n in chance.integers(0, 2**62, count)]),
        }
    )


def land_round(landing: Path, number: int, chance: np.random.Generator) -> None:
    """Land one round of both tables; the first one is their load."""
    if number == 0:
        ids = np.arange(ROWS)
        parts = {
            "dimension": [changes(ids, ids % 1, "I", 0, chance)],
            "fact": [changes(ids, ids % DAYS, "I", 0, chance)],
        }
    else:
        few = ROWS // 100
        some = chance.choice(ROWS, few, replace=False)
        new = ROWS + few * number + np.arange(few)
        # The more recent a partition, the more corrections it gets.
        recent = np.minimum(chance.zipf(1.6, few) - 1, DAYS - 1)
        corrected = (chance.integers(0, ROWS // DAYS, few) * DAYS + DAYS - 1 - recent).astype(np.int64)
        corrected = np.unique(corrected)
        newest = np.full(few, DAYS + number // 5)
        parts = {
            "dimension": [
                changes(some, some % 1, "U", number, chance),
                changes(new[: few // 10], new[: few // 10] % 1, "I", number, chance),
            ],
            "fact": [
                changes(corrected, corrected % DAYS, "U", number, chance),
                changes(new, newest, "I", number, chance),
            ],
        }
    for name, tables in parts.items():
        folder = landing / name
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.concat_tables(tables), folder / f"{number:05}.parquet")


@dataclasses.dataclass
class Result:
    """What one table cost and came to."""

    table: str
    files_per_merge: float
    files_per_touched_partition: float
    files_per_partition: float
    files: int
    bytes: int
    seconds: float
    fresh: float

    @property
    def ratio(self) -> float:
        """Read time to that of a fresh table."""
        return self.seconds / self.fresh


def run_rounds(folder: Path, table_format: str, rounds: int, every: int | None) -> list[Result]:
    """Run the rounds in a project of their own, with maintenance after every few, or without."""
    shutil.rmtree(folder, ignore_errors=True)
    tables = {n: t | {"format": table_format} for n, t in TABLES.items()}
    bench = BenchProject(folder).write(SOURCES, tables, spark_of(table_format))
    chance = np.random.default_rng(7)
    added: dict[TableName, list[tuple[int, int]]] = {name: [] for name in NAMES}
    seconds: list[float] = []
    for number in range(rounds + 1):
        land_round(bench.landing, number, chance)
        before = {name: _files_of_rows(folder, name) for name in NAMES}
        begun = time.perf_counter()
        bench.run("ingestion", "cdc_merge")
        seconds.append(time.perf_counter() - begun)
        for name in NAMES:
            new = _files_of_rows(folder, name) - before[name]
            added[name].append((len(new), max(len({file.parent for file in new}), 1)))
        if every and number and number % every == 0:
            bench.run("maintenance")
    if every:
        bench.run("maintenance")
    project = bench.open()
    print(f"maintenance {folder.name}: {statistics.median(seconds[1:]):.1f} s a round, load average {load()}")
    return [_result(project, name, added[name][1:]) for name in NAMES]


def spark_of(table_format: str) -> dict[str, str]:
    """The settings of Spark that a format needs beside those of conf/base."""
    environment = ROOT / f"conf/{table_format}/spark.yml"
    return yaml.safe_load(environment.read_text(encoding="utf-8")) if environment.is_file() else {}


def _files_of_rows(folder: Path, name: TableName) -> set[Path]:
    """A table's files of rows and of deletes, of any format, published or not yet removed."""
    table = folder / "lakehouse/warehouse" / name.namespace / name.table
    found = (file for file in table.rglob("*") if file.is_file())
    return {
        file
        for file in found
        if _KEPT_BY_FORMATS.isdisjoint(file.relative_to(table).parts[:-1])
        and not file.name.endswith(".crc")
        and file.name != ".hoodie_partition_metadata"
    }


def _result(project: Project, name: TableName, added: list[tuple[int, int]]) -> Result:
    lake = project.format_of(name)
    rows = lake.read(name)
    fresh = TableName("w3", f"{name.table}_fresh")
    columns = {f.name: f.dataType for f in rows.schema.fields}
    lake.drop(fresh)
    lake.create(fresh, columns, Layout(partition_by=project.table(name).partition_by))
    with lake.stage(fresh, lake.state(fresh)) as stage:
        stage.append(rows.repartition(1, "day") if "fact" in name.table else rows.coalesce(1))
        stage.publish(lake.state(name).bookmark)
    timed: dict[TableName, list[float]] = {name: [], fresh: []}
    for turn in range(12):
        for one in (name, fresh) if turn % 2 else (fresh, name):
            begun = time.perf_counter()
            lake.read(one).selectExpr("count(*)", "sum(amount)", "sum(hash(text, id, day))").collect()
            timed[one].append(time.perf_counter() - begun)
    storage = lake.maintenance.storage(name)
    partitions = rows.select("day").distinct().count() if "fact" in name.table else 1
    return Result(
        table=str(name), files_per_merge=statistics.mean(files for files, _ in added),
        files_per_touched_partition=statistics.mean(files / touched for files, touched in added),
        files=storage.files + storage.delete_files,
        files_per_partition=storage.files / partitions, bytes=storage.bytes,
        seconds=statistics.median(timed[name][2:]), fresh=statistics.median(timed[fresh][2:]),
    )  # fmt: skip


def main() -> int:
    """Measure both ways, and print one table."""
    parser = argparse.ArgumentParser(description="Read time after many rounds of small changes.")
    parser.add_argument("--format", default="iceberg", help="table format, as in tables.yml")
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--every", type=int, default=10, help="rounds between two maintenances")
    options = parser.parse_args()
    folder = ROOT / f".bench/longevity_{options.format}"
    print(f"load average before: {load()}", flush=True)
    headings = (
        "table", "maintenance", "files a merge", "files a touched partition", "files a partition", "files",
        "MB", "read, s", "fresh, s", "ratio",
    )  # fmt: skip
    print(f"\n| {' | '.join(headings)} |\n|{' --- |' * len(headings)}")
    for word, every in (("off", None), ("on", options.every)):
        with redirect_stdout(sys.stderr):  # the runs print their summaries
            results = run_rounds(folder / word, options.format, options.rounds, every)
        for r in results:
            print(
                f"| {r.table} | {word} | {r.files_per_merge:.1f} "
                f"| {r.files_per_touched_partition:.1f} | {r.files_per_partition:.1f} | {r.files} "
                f"| {r.bytes / 1e6:.1f} | {r.seconds:.3f} | {r.fresh:.3f} | {r.ratio:.2f} |",
                flush=True,
            )
    print(f"\nload average after: {load()}")
    return int(any(r.ratio > GOAL for r in results))


if __name__ == "__main__":
    sys.exit(main())
