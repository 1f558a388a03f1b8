"""What quality costs: answers beside Great Expectations' engine, and its share in a run of the bundled data.

.venv/bin/python bench/quality.py [--rows 1000000] [--repeats 3] [--skip-run]
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

SAID = [
    {"type": "expect_column_values_to_not_be_null", "column": "id"},
    {"type": "expect_column_values_to_be_in_set", "column": "state", "value_set": ["a", "b", "c"]},
    {"type": "expect_column_values_to_be_between", "column": "price", "min_value": 0, "max_value": 1},
    {"type": "expect_column_values_to_match_regex", "column": "code", "regex": "^c[0-9]+$"},
    {"type": "expect_column_value_lengths_to_be_between", "column": "code", "min_value": 2},
    {"type": "expect_column_mean_to_be_between", "column": "price", "min_value": 0, "max_value": 1},
    {"type": "expect_table_row_count_to_be_between", "min_value": 1},
    {"type": "expect_column_values_to_be_unique", "column": "id"},
]


def seconds(work: Callable[[], object]) -> float:
    """How long some work takes."""
    begun = time.perf_counter()
    work()
    return time.perf_counter() - begun


def beside_the_engine(rows: int, repeats: int) -> dict[str, Any]:
    """Eight expectations on one cached frame: one aggregation, and Great Expectations' Spark engine."""
    from pyspark.sql import functions as F

    from kedro_lakehouse.config.expectations import ExpectationConfig
    from kedro_lakehouse.project import found_project
    from kedro_lakehouse.quality.answers import answer
    from kedro_lakehouse.quality.engine import answer_by_engine, great_expectations

    spark = found_project().session
    frame = spark.range(rows).select(
        "id", F.element_at(F.array(*map(F.lit, "abc")), (F.col("id") % 3 + 1).cast("int")).alias("state"),
        F.rand(7).alias("price"), F.concat(F.lit("c"), F.col("id").cast("string")).alias("code"),
    ).cache()  # fmt: skip
    frame.count()
    asked = [ExpectationConfig.model_validate(e) for e in SAID]
    imported = seconds(great_expectations)
    ways = {"aggregation": answer, "great_expectations": answer_by_engine}
    for way in ways.values():
        way(asked, frame)  # the first time compiles
    told = {
        name: [seconds(lambda w=way: w(asked, frame)) for _ in range(repeats)] for name, way in ways.items()
    }
    spark.stop()
    medians = {name: round(statistics.median(times), 2) for name, times in told.items()}
    return {
        "rows": rows,
        "expectations": len(asked),
        "import_great_expectations": round(imported, 2),
    } | medians


def share_of_a_run(repeats: int) -> dict[str, Any]:
    """Whole runs of the bundled data, without expectations and with blocking checks on every table."""
    conf = ROOT / "conf/base"
    sources = yaml.safe_load((conf / "sources.yml").read_text(encoding="utf-8"))
    tables = yaml.safe_load((conf / "tables.yml").read_text(encoding="utf-8"))
    bare = {n: {k: v for k, v in t.items() if k != "expectations"} for n, t in tables.items()}
    checked = {n: t | {"expectations": _blocking(t["keys"])} for n, t in bare.items()}
    told: dict[str, list[float]] = {"without": [], "with": []}
    for _ in range(repeats):
        for name, declared in (("without", bare), ("with", checked)):
            told[name].append(_run(sources, declared))
    medians = {name: round(statistics.median(times), 2) for name, times in told.items()}
    share = (medians["with"] - medians["without"]) / medians["with"]
    return {"tables": len(bare), "seconds": medians, "share_of_quality": round(share, 3)}


def _blocking(keys: list[str]) -> list[dict[str, Any]]:
    """A row rule for each key column, and the uniqueness of the key among all rows."""
    rules: list[dict[str, Any]] = [{"type": "expect_column_values_to_not_be_null", "column": k} for k in keys]
    rules.append({"type": "expect_compound_columns_to_be_unique", "column_list": keys})
    return [rule | {"severity": "block"} for rule in rules]


def _run(sources: dict[str, Any], tables: dict[str, Any]) -> float:
    from harness.project import TemporaryProject

    with tempfile.TemporaryDirectory() as folder:
        project = TemporaryProject.make(Path(folder) / "p", sources, tables, as_shipped=True)
        shutil.copytree(ROOT / "data/01_raw", project.landing, dirs_exist_ok=True)
        command = [str(Path(sys.executable).parent / "kedro"), "run"]
        return seconds(
            lambda: subprocess.run(command, cwd=project.path, check=True, stdout=subprocess.DEVNULL)
        )


def main() -> None:
    """Measure, and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--skip-run", action="store_true", help="only compare with the engine")
    options = parser.parse_args()
    told: dict[str, Any] = {"engines": beside_the_engine(options.rows, options.repeats)}
    if not options.skip_run:
        told["run"] = share_of_a_run(options.repeats)
    print(json.dumps(told, indent=2))


if __name__ == "__main__":
    main()
