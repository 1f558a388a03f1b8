"""The tables of ``many_tables.py`` merged by dlt into Delta: current rows only, the peer of that benchmark.

Usage: ``uv run --no-project --with dlt[deltalake]==1.31.0 python bench/plain_dlt.py LANDING TARGET TURN...``.

For each turn it reads every table's file of that turn, merges it by ``id``, and prints the seconds as JSON.
No history and no record of changes is kept; an older event that comes late overwrites a newer one.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

os.environ.update(RUNTIME__DLTHUB_TELEMETRY="false", RUNTIME__LOG_LEVEL="ERROR")

import dlt
import pyarrow.parquet as pq


def main(landing: Path, target: Path, turns: list[int]) -> None:
    """Merge turn by turn."""
    pipeline = dlt.pipeline(
        "many",
        destination=dlt.destinations.filesystem(bucket_url=target.as_uri()),
        dataset_name="many",
        pipelines_dir=str(target.with_suffix(".dlt")),
    )
    for turn in turns:
        begun = time.perf_counter()
        pipeline.run([resource(folder, turn) for folder in sorted(landing.iterdir())])
        print(json.dumps({"turn": turn, "seconds": time.perf_counter() - begun}), flush=True)


def resource(folder: Path, turn: int) -> Any:
    """One table's rows of a turn."""
    rows = pq.read_table(next(folder.glob(f"2026010{turn + 1}-*.parquet"))).drop_columns(["Op"])
    return dlt.resource(
        [rows], name=folder.name, primary_key="id", write_disposition="merge", table_format="delta"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]), [int(word) for word in sys.argv[3:]])
