"""What a change of ten rows costs in derived tables over a million rows: by keys, and computed whole.

Usage: ``.venv/bin/python bench/derived.py [--orders 1000000] [--rounds 3] [--folder FOLDER]
[--changes orders customer]``.

Customers, their sites (twice as many) and orders; two tables are derived from them: ``summary``, a row for
each customer with orders, and ``placed``, a row for each order. Each is made twice, by keys and whole. A
round changes ten orders, or ten customers' names, and commits the inputs. Then it times a run of each derived
table alone, from listing its inputs to its published current table. Spark is warm but for the first round.
With ``--folder`` what was loaded is kept there, and used again. Exits 1 where the two ways differ, or a
result that should have been computed by keys was computed whole.
"""

from __future__ import annotations

import argparse
import logging
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import duckdb
from kedro.framework.session import KedroSession
from kedro.framework.startup import bootstrap_project
from lake import ROOT, BenchProject, load, print_machine

from kedro_lakehouse.project import active_project
from kedro_lakehouse.runners import IsolatingThreadRunner

SOURCES = {
    "flagged": {
        "type": "changes", "file_format": "parquet", "path": "${globals:landing}/in", "pattern": "*.parquet",
        "op_column": "op",
    }
}  # fmt: skip
INPUTS = {"c": "in.customer", "s": "in.site", "o": "in.orders"}
QUERIES = {
    "summary": ("id", """
        select c.id, c.name, count(o.id) as orders, sum(o.amount) as total
        from c join s on c.id = s.c_id join o on s.id = o.s_id group by c.id, c.name"""),
    "placed": ("id", """
        select o.id, o.amount, s.city, c.name
        from o left join s on o.s_id = s.id left join c on s.c_id = c.id"""),
}  # fmt: skip
LOGGER = logging.getLogger("kedro_lakehouse.ingestion.derived")
WAYS = {"keys": 0, "whole": 10**15}


def tables() -> dict[str, Any]:
    """The inputs, and each query in both ways."""
    made: dict[str, Any] = {
        name: {"source": "flagged", "keys": ["id"], "order_by": ["ts"]} for name in INPUTS.values()
    }
    for name, (key, sql) in QUERIES.items():
        for way, rows in WAYS.items():
            derive = {"inputs": INPUTS, "sql": " ".join(sql.split()), "by_keys_from": rows}
            made[f"{way}.{name}"] = {"keys": [key], "derive": derive}
    return made


def land(folder: Path, name: str, file: str, query: str) -> None:
    """Write a file of changes."""
    place = folder / "in" / name
    place.mkdir(parents=True, exist_ok=True)
    duckdb.execute(f"COPY ({query}) TO '{place}/{file}.parquet'")


def land_first(folder: Path, orders: int) -> None:
    """Write all rows of the inputs; there are ten orders a customer."""
    customers, sites = orders // 10, orders // 5
    made = {
        "customer": (customers, "'name ' || i AS name"),
        "site": (sites, f"i % {customers} AS c_id, 'city ' || (i % 97) AS city"),
        "orders": (orders, f"(i * 7919) % {sites} AS s_id, (i % 1000)::BIGINT AS amount"),
    }
    for name, (rows, columns) in made.items():
        query = f"SELECT i AS id, {columns}, 0::BIGINT AS ts, 'I' AS op FROM range({rows}) r(i)"
        land(folder, name, "0", query)


def land_change(folder: Path, what: str, number: int, orders: int) -> None:
    """Write ten changed rows of one input."""
    made = {
        "orders": f"i * {orders // 11} + {number} AS id, i * 13 + {number} AS s_id, 7::BIGINT AS amount",
        "customer": f"i * {orders // 110} + {number} AS id, 'other {number}' AS name",
    }
    query = f"SELECT {made[what]}, {number}::BIGINT AS ts, 'U' AS op FROM range(10) r(i)"
    land(folder, what, str(number), query)


def run(project: BenchProject, *names: str) -> float:
    """Run some tables as ``kedro run`` does; return the seconds."""
    begun = time.perf_counter()
    bootstrap_project(project.folder)
    with KedroSession.create(project_path=project.folder) as session:
        session.run(namespaces=list(names), runner=IsolatingThreadRunner())
    return time.perf_counter() - begun


class Said(logging.Handler):
    """How each table was computed the last time."""

    def __init__(self) -> None:
        """Know of none yet."""
        super().__init__(logging.INFO)
        self.of: dict[str, str] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Keep what is said of a table."""
        table, _, how = record.getMessage().partition(": ")
        self.of[table] = how


def differing(name: str) -> int:
    """In how many rows the two ways differ."""
    lake = active_project().session
    keys, whole = (lake.table(f"lake.{way}.{name}").drop("_order", "_time", "_batch") for way in WAYS)
    return keys.exceptAll(whole).count() + whole.exceptAll(keys).count()


def main() -> int:
    """Print seconds by derived table, input and way."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--orders", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--changes", nargs="+", choices=["orders", "customer"], default=["orders", "customer"]
    )
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    (ROOT / ".bench").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=ROOT / ".bench") as temporary:
        project = BenchProject(options.folder or Path(temporary)).write(SOURCES, tables())
        logging.getLogger("kedro").setLevel(logging.WARNING)
        if not (project.landing / "in").exists():
            land_first(project.landing, options.orders)
        begun = run(project, *INPUTS.values())
        derived = {f"{way}.{name}": run(project, f"{way}.{name}") for name in QUERIES for way in WAYS}
        print(f"inputs {begun:.1f} s, then " + ", ".join(f"{n} {s:.1f} s" for n, s in derived.items()))
        if options.rounds == 0:
            return 0
        print_machine(active_project())
        number = len(list((project.landing / "in").glob("*/*.parquet")))
        found: dict[tuple[str, str, str], list[float]] = {}
        said, whole_after_all = Said(), list[str]()
        LOGGER.addHandler(said)
        for _ in range(options.rounds):
            for what in options.changes:
                number += 1
                land_change(project.landing, what, number, options.orders)
                run(project, *INPUTS.values())
                for name in QUERIES:
                    for way in WAYS:
                        took = run(project, f"{way}.{name}")
                        print(f"{way}.{name}, {what}: {took:.2f} s, load {load()}", flush=True)
                        found.setdefault((name, what, way), []).append(took)
                    if "of its keys are computed" not in (how := said.of.get(f"keys.{name}", "")):
                        whole_after_all.append(f"keys.{name}: {how}")
        print(f"| derived table | ten changed rows of | by keys | whole | part | load {load()} |")
        print("| --- | --- | --- | --- | --- | --- |")
        for name in QUERIES:
            for what in options.changes:
                keys, whole = (statistics.median(found[name, what, way]) for way in WAYS)
                print(f"| {name} | {what} | {keys:.2f} s | {whole:.2f} s | {keys / whole:.3f} | |")
        wrong = {name: count for name in QUERIES if (count := differing(name))}
        print(f"the two ways differ in {wrong}" if wrong else "the two ways are equal")
        print("\n".join(whole_after_all) or "every result by keys was computed by keys")
        return bool(wrong or whole_after_all)


if __name__ == "__main__":
    sys.exit(main())
