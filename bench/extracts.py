"""A backlog of extracts of one table, compared into a history, beside a DuckDB script that makes the same.

Usage: ``.venv/bin/python bench/extracts.py [--extracts 18] [--rows 46500] [--events] [--bare]``.

Each extract is a CSV file of text columns. From one to the next 2 of 100 rows change, and 1 of 500 is
replaced by a row with a new key. The script reads the same files and writes one parquet file: nothing else is
kept, checked or published. Ours begins when its Spark is there. Exits 1 where the two histories differ. With
``--bare`` the script's query is measured in Spark, in place of ours.
"""

from __future__ import annotations

import argparse
import datetime as dt
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
from lake import ROOT, BenchProject, event_log, load, print_machine
from pyspark.sql import Window
from pyspark.sql import functions as F

from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCES = {
    "crm": {
        "type": "extract", "path": "${globals:landing}", "pattern": "*.csv", "file_format": "csv",
        "extract_time": {"from": "name", "pattern": "%Y-%m-%d"},
    }
}  # fmt: skip
TABLES = {"crm.person": {"source": "crm", "entity": "person", "keys": ["id"], "history": True}}
FIRST = dt.date(2026, 1, 1)


def land(folder: Path, extracts: int, rows: int, columns: int) -> None:
    """Write the files; the value of a cell follows from its row, its column and how often the row changed."""
    folder.mkdir(parents=True)
    for day in range(extracts):
        cells = ", ".join(f"md5(concat(place, '.{c}.', changed))[:12] AS c{c:02}" for c in range(1, columns))
        made = f"""
            SELECT place + {rows} * replaced AS id, {cells} FROM (
                SELECT place, ({day} + 49 - place % 50) // 50 AS changed, ({day} + 499 - place % 500) // 500
                AS replaced FROM range({rows}) AS r(place))"""
        # The row number decides on which day a row changes, so each day has its share of them.
        duckdb.execute(f"COPY ({made}) TO '{folder}/{FIRST + dt.timedelta(days=day)}.csv' (HEADER)")


def script(folder: Path, target: Path, columns: int) -> float:
    """Make the history by DuckDB; return its seconds."""
    names = ", ".join(f"c{c:02}" for c in range(1, columns))
    begun = time.perf_counter()
    with duckdb.connect() as connection:
        connection.execute(
            f"""
            COPY (
                WITH cells AS (
                    SELECT *, strptime(parse_filename(filename, true), '%Y-%m-%d')::DATE AS day
                    FROM read_csv('{folder}/*.csv', all_varchar = true, filename = true)
                ), marked AS (
                    SELECT *, coalesce(lag(day) OVER by_key = day - 1
                        AND lag(hash({names})) OVER by_key = hash({names}), false) AS same
                    FROM cells WINDOW by_key AS (PARTITION BY id ORDER BY day)
                ), numbered AS (
                    SELECT *, count(*) FILTER (NOT same) OVER by_key AS number
                    FROM marked WINDOW by_key AS (PARTITION BY id ORDER BY day)
                )
                SELECT id, {", ".join(f"any_value({c}) AS {c}" for c in names.split(", "))},
                    min(day) AS began,
                    CASE WHEN max(day) < (SELECT max(day) FROM cells) THEN max(day) + 1 END AS ended
                FROM numbered GROUP BY id, number
            ) TO '{target}' (FORMAT parquet)"""
        )
    return time.perf_counter() - begun


def bare(session: SparkSession, folder: Path, target: Path, columns: int) -> float:
    """Make the history as the script does, by Spark alone; return its seconds."""
    names = [f"c{c:02}" for c in range(1, columns)]
    begun = time.perf_counter()
    rows = session.read.schema(", ".join(f"{n} string" for n in ("id", *names))).csv(str(folder), header=True)
    day = F.to_date(F.regexp_extract("_metadata.file_name", r"(.*)[.]csv", 1))
    by_key, values = Window.partitionBy("id").orderBy("day"), F.xxhash64(*names)
    same = (F.lag("day").over(by_key) == F.date_sub("day", 1)) & (F.lag(values).over(by_key) == values)
    marked = rows.withColumn("day", day).withColumn("same", F.coalesce(same, F.lit(False)))
    numbered = marked.withColumn("number", F.count(F.when(~F.col("same"), 1)).over(by_key))
    kept = [F.first(n).alias(n) for n in names]
    versions = numbered.groupBy("id", "number").agg(*kept, F.min("day").alias("began"), F.max("day"))
    versions.write.parquet(str(target))
    return time.perf_counter() - begun


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--extracts", type=int, default=18)
    parser.add_argument("--rows", type=int, default=46_500)
    parser.add_argument("--columns", type=int, default=20)
    parser.add_argument("--events", action="store_true", help="write Spark's event log to .bench/events")
    parser.add_argument("--bare", action="store_true", help="the script's query in Spark, not ours")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="extracts_") as place:
        spark = event_log(ROOT / ".bench/events") if asked.events else None
        bench = BenchProject(Path(place)).write(SOURCES, TABLES, spark)
        landed, plain = bench.landing / "person", Path(place) / "history.parquet"
        land(landed, asked.extracts, asked.rows, asked.columns)
        peer = script(landed, plain, asked.columns)
        opened = bench.open()
        if asked.bare:
            taken = bare(opened.session, landed, Path(place) / "bare", asked.columns)
            print(f"| Spark alone | {taken:.1f} s | DuckDB's script | {peer:.1f} s | load {load()} |")
            return 0
        begun = time.perf_counter()
        project = bench.run("ingestion", "cdc_merge", "scd2")
        taken = time.perf_counter() - begun
        stored = project.catalog.find(TableName("crm", "person_history")).scan().to_arrow()
        names = ", ".join(["id", *(f"c{c:02}" for c in range(1, asked.columns))])
        duckdb.execute("SET TimeZone = 'UTC'")
        mine = f"SELECT {names}, effective_from::DATE AS began, effective_to::DATE AS ended FROM stored"
        theirs = f"SELECT {names}, began, ended FROM '{plain}'"
        differing = duckdb.sql(
            f"SELECT count(*) FROM (({mine} EXCEPT ALL {theirs}) UNION ALL ({theirs} EXCEPT ALL {mine}))"
        ).fetchall()[0][0]
        print(f"{asked.extracts} extracts of {asked.rows:,} rows x {asked.columns} columns, load {load()}")
        print(f"| ours | {taken:.1f} s | DuckDB's script | {peer:.1f} s | ratio {taken / peer:.1f} |")
        print(f"{stored.num_rows:,} versions, {differing} rows differ")
        print_machine(project, "duckdb", "pyspark")
    return 1 if differing else 0


if __name__ == "__main__":
    os.environ.setdefault("KEDRO_LOGGING_CONFIG", str(Path(__file__).parents[1] / "conf/logging.yml"))
    sys.exit(main())
