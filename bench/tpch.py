"""TPC-H's orders as an AWS DMS task lands them: a full load, then one file of changes a batch."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import duckdb
import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

SOURCES = {
    "tpch": {
        "type": "dms", "path": "${globals:landing}", "file_format": "parquet",
        "sequence_column": "change_seq", "timestamp_column": "commit_time", "max_files": 1,
    },
}  # fmt: skip
TABLES = {"tpch.orders": {"source": "tpch", "keys": ["o_orderkey"]}}
KEY = "o_orderkey"
_CHANGED = {
    "o_orderstatus": "'F'",
    "o_totalprice": "CAST(o_totalprice + 1 AS DECIMAL(15, 2))",
    "o_comment": "'batch {number}, event ' || position",
}
_UNCHANGED = {
    name: name for name in ("o_custkey", "o_orderdate", "o_orderpriority", "o_clerk", "o_shippriority")
}


def land_full_load(landing: Path, scale: float) -> int:
    """Make the full load with tpchgen-cli; the number of its rows."""
    load = landing / "orders/LOAD00000001.parquet"
    if not load.exists():
        load.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as folder:
            words = ("parquet", "-s", str(scale), "--tables=orders", f"--output-dir={folder}", "--quiet")
            subprocess.run([str(Path(sys.executable).with_name("tpchgen-cli")), *words], check=True)
            # Written anew, since the generator notes an Arrow type (string_view) that DMS does not have.
            duckdb.execute(f"COPY (FROM '{folder}/orders.parquet') TO '{load}' (FORMAT parquet)")
    return duckdb.sql(f"SELECT count(*) FROM '{load}'").fetchall()[0][0]


def land_changes(landing: Path, rows: int, fractions: Sequence[float]) -> list[int]:
    """Make one file of changes a fraction of the table's rows: half updates, 40 % inserts, 10 % deletes.

    Rows are drawn with replacement, so a key may have several events; each event has a time of its own.
    An insert takes a key from the gaps that TPC-H leaves between orders for its refresh functions.
    """
    counts = []
    for number, fraction in enumerate(fractions, start=1):
        count = max(10, round(rows * fraction))
        counts.append(count)
        path = landing / f"orders/20260101-{number:02d}0000000.parquet"
        if path.exists():
            continue
        random = np.random.default_rng(number)
        drawn = pa.table({
            "position": np.arange(count),
            "row": random.integers(0, rows, count),
            "op": random.permutation(np.repeat(["U", "I", "D"], _shares(count))),
        })  # fmt: skip
        base = f"read_parquet('{landing}/orders/LOAD00000001.parquet', file_row_number=true)"
        duckdb.register("drawn", drawn)
        kept = ", ".join(
            f"CASE WHEN op <> 'D' THEN {value} END AS {name}"
            for name, value in (_UNCHANGED | _CHANGED).items()
        ).format(number=number)
        duckdb.execute(f"""
            COPY (
              SELECT op AS "Op", printf('%d%012d', {number}, position) AS change_seq,
                     TIMESTAMP '2026-01-01' + to_hours({number}) + to_microseconds(position) AS commit_time,
                     CASE WHEN op = 'I' THEN {KEY} + 8 ELSE {KEY} END AS {KEY}, {kept}
              FROM drawn JOIN {base} ON file_row_number = drawn."row"
              ORDER BY position
            ) TO '{path}' (FORMAT parquet)""")
        duckdb.unregister("drawn")
    return counts


def _shares(count: int) -> list[int]:
    inserts, deletes = round(count * 0.4), round(count * 0.1)
    return [count - inserts - deletes, inserts, deletes]
