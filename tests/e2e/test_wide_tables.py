"""Late rows of a wide table with many keys: planned by Spark, they end, and give the right rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from harness.planned import as_planned
from harness.project import environment, write_parquet
from harness.soak import only_in_soak

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.project import TemporaryProject

pytestmark = [pytest.mark.e2e, only_in_soak]

KEDRO = str(Path(sys.executable).with_name("kedro"))
KEYS = [f"k{n}" for n in range(6)]
NUMBERS = [f"d{n}" for n in range(5)]
WORDS = [f"w{n}" for n in range(8)]
COLUMNS = {"Op": pa.string(), "seq": pa.string()} | dict.fromkeys(KEYS, pa.int64())
COLUMNS |= dict.fromkeys(NUMBERS, pa.float64()) | dict.fromkeys(WORDS, pa.string())
TABLES: dict[str, Any] = {"air.flight": {"source": "air", "keys": KEYS, "history": True}}
SOURCES = {"air": {"type": "dms", "path": "${globals:landing}", "sequence_column": "seq"}}


def row(op: str, key: int, order: int, value: float) -> dict[str, Any]:
    return {
        "Op": op, "seq": f"{order:06}", **dict.fromkeys(KEYS, key), **dict.fromkeys(NUMBERS, value),
        **dict.fromkeys(WORDS, f"{value:g}"),
    }  # fmt: skip


def test_late_rows_of_a_wide_table_do_not_keep_spark_planning(
    make_project: Callable[..., TemporaryProject],
) -> None:
    project = make_project(SOURCES, TABLES)
    project.write("globals", {"small_batch": 0}, env="local")
    rounds = [
        [row("I", key, 10 + key, 1.0) for key in range(20)],
        [row("U", 0, 100, 2.0), *[row("U", key, 5, 0.5) for key in (1, 2, 3)], row("I", 99, 101, 3.0)],
    ]
    for number, events in enumerate(rounds, start=1):
        write_parquet(project.landing / f"flight/2026010{number}-000000000.parquet", events, COLUMNS)
        # Before constraints were turned off it did not end within 16 minutes: a test must not wait for that.
        with as_planned(project):
            ended = subprocess.run(
                [KEDRO, "run", "--pipelines=ingestion,cdc_merge,scd2"],
                cwd=project.path, env=environment(), capture_output=True, text=True, check=False, timeout=300,
            )  # fmt: skip
        assert ended.returncode == 0, ended.stderr
    current = {r["k0"]: r["d0"] for r in project.rows("air.flight")}
    assert current == dict.fromkeys(range(1, 20), 1.0) | {0: 2.0, 99: 3.0}
    versions = sorted((r["k0"], r["d0"], r["is_current"]) for r in project.rows("air.flight_history"))
    assert [v for v in versions if v[0] in (0, 1, 99)] == [
        (0, 1.0, False), (0, 2.0, True), (1, 0.5, False), (1, 1.0, True), (99, 3.0, True)
    ]  # fmt: skip
