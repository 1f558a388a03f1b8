"""Many small tables: the first load, ten changed rows in each, and a run in which nothing is new.

Usage: ``.venv/bin/python bench/many_tables.py [--tables 200] [--rounds 3] [--format iceberg] [--large]``.

Each table gets 100 rows by one DMS file in the first run, and ten updates in each round after it; a current
table and a history are kept. ``--large`` lets Spark plan every batch. The rows of all tables are compared
with what a plain fold gives; exits 1 where one differs. ``--peers`` measures beside it, in the same run, dlt
(``plain_dlt.py``, by uv in an environment of its own) and, of Iceberg, three bare commits a table: pyiceberg
appends ten rows to each of its three tables, through the same catalog.
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
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import yaml
from lake import ROOT, BenchProject, load, print_machine

from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.names import Role
    from kedro_lakehouse.project import Project

ROWS, CHANGES = 100, 10
SOURCES = {"many": {"type": "dms", "path": "${globals:landing}"}}


def table_names(number: int) -> list[str]:
    """The names of the tables."""
    return [f"many.t{i:03}" for i in range(number)]


def land(folder: Path, names: list[str], turn: int) -> None:
    """Land one file for each table: all rows first, then ten updates a round."""
    keys = range(ROWS) if turn == 0 else range((turn - 1) * CHANGES, turn * CHANGES)
    for name in names:
        place = folder / name.partition(".")[2]
        place.mkdir(parents=True, exist_ok=True)
        rows = {
            "Op": ["I" if turn == 0 else "U"] * len(keys),
            "id": list(keys),
            "name": [f"{name} {key}" for key in keys],
            "amount": [key + 1000 * turn for key in keys],
        }
        schema = pa.schema({"Op": pa.string(), "id": pa.int64(), "name": pa.string(), "amount": pa.int64()})
        pq.write_table(pa.table(rows, schema=schema), place / f"2026010{turn + 1}-000000000.parquet")


def wrong_tables(project: Project, names: list[str], turn: int) -> list[str]:
    """The tables that do not hold the rows that a plain fold gives after a round."""
    expected = {
        key: key + 1000 * ((key // CHANGES) + 1 if key < turn * CHANGES else 0) for key in range(ROWS)
    }
    wrong = []
    for name in names:
        stored = TableName.parse(name)
        current, history = rows_of(project, stored, "current"), rows_of(project, stored, "history")
        held = {row["id"]: row["amount"] for row in current}
        open_rows = sum(row["is_current"] for row in history)
        if held != expected or (len(history), open_rows) != (ROWS + turn * CHANGES, ROWS):
            wrong.append(name)
    return wrong


def rows_of(project: Project, name: TableName, role: Role) -> Sequence[Mapping[str, Any]]:
    """The rows of a stored table: those of Iceberg without Spark."""
    table = project.bind(name)
    if not table.in_catalog:
        return table.read(role).collect()
    return project.catalog.find(table.stored(role)).scan().to_arrow().to_pylist()


def bare_commits(project: Project, names: list[str]) -> float:
    """Append ten rows to each table's three; the seconds that takes, without reading the rows."""
    roles: list[Role] = ["changes", "current", "history"]
    stored = [project.bind(name).stored(role) for name in map(TableName.parse, names) for role in roles]
    rows = [project.catalog.find(name).scan(limit=CHANGES).to_arrow() for name in stored]
    begun = time.perf_counter()
    for name, more in zip(stored, rows, strict=True):
        project.catalog.find(name).append(more)
    return time.perf_counter() - begun


def dlt_seconds(landing: Path, turns: int) -> list[float]:
    """What dlt takes for each turn."""
    command = [
        ROOT / ".venv/bin/uv", "run", "-q", "--no-project", "--with", "dlt[deltalake]==1.31.0", "python",
        ROOT / "bench/plain_dlt.py", landing, landing.with_name("by_dlt"), *map(str, range(turns)),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    return [json.loads(line)["seconds"] for line in lines]


def show(what: str, tables: int, taken: float) -> None:
    """Print a row of the table."""
    print(
        f"| {what} | {tables} tables | {taken:.1f} s | {taken / tables:.3f} s a table | load {load()} |",
        flush=True,
    )


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--format", default="iceberg")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--peers", action="store_true")
    asked = parser.parse_args()
    names = table_names(asked.tables)
    facts: dict[str, Any] = {
        "source": "many", "keys": ["id"], "history": {}, "format": asked.format,
    }  # fmt: skip
    tables = {name: facts | {"entity": name.partition(".")[2]} for name in names}
    failed = []
    with tempfile.TemporaryDirectory(prefix="many_") as folder:
        loaded = ROOT / f"conf/{asked.format}/spark.yml"
        settings = yaml.safe_load(loaded.read_text(encoding="utf-8")) if loaded.exists() else None
        bench = BenchProject(Path(folder)).write(SOURCES, tables, settings)
        if asked.large:
            bench.set_globals(small_batch=0)
        land(bench.landing, names, 0)
        project = None
        for turn in range(asked.rounds + 1):
            if turn:
                land(bench.landing, names, turn)
            begun = time.perf_counter()
            project = bench.run("__default__")
            taken = time.perf_counter() - begun
            show(f"{CHANGES} changes, round {turn}" if turn else "first load", len(names), taken)
            failed += wrong_tables(project, names, turn)
        begun = time.perf_counter()
        bench.run("__default__")
        show("nothing new, warm", len(names), time.perf_counter() - begun)
        begun = time.perf_counter()
        subprocess.run([ROOT / ".venv/bin/kedro", "run"], cwd=folder, check=True, capture_output=True)
        show("nothing new, kedro run", len(names), time.perf_counter() - begun)
        if asked.peers:
            for turn, taken in enumerate(dlt_seconds(bench.landing, asked.rounds + 1)):
                show(
                    f"dlt, {CHANGES} changes, round {turn}" if turn else "dlt, first load", len(names), taken
                )
        if asked.peers and project is not None and asked.format == "iceberg":
            show("three bare commits a table", len(names), bare_commits(project, names))
        if project is not None:
            print_machine(project, "pysail", "pyiceberg")
    print(f"wrong tables: {failed or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    os.environ.setdefault("KEDRO_LOGGING_CONFIG", str(Path(__file__).parents[1] / "conf/logging.yml"))
    sys.exit(main())
