"""What a look at a stream's ledger costs after many batches: read whole, and remembered in short.

Usage: ``.venv/bin/python bench/ledger.py [--plans 10000 50000]``. No Spark is started.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from lake import load

from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.report import CommitReport
from kedro_lakehouse.ops.store import BATCH_LEDGER, OpsStore
from kedro_lakehouse.session.catalog import MetadataCatalog
from kedro_lakehouse.sources.ledger import Ledger
from kedro_lakehouse.sources.streams import StreamRange

ITEM = TableName("shop", "item")
PARTITIONS, AT_ONCE, ROUNDS = 2, 5_000, 6


def ranges(number: int) -> list[Any]:
    """The ranges of a batch: ten records of each partition."""
    return [
        StreamRange(
            stream="in", identity="x", partition=str(part), first=(number - 1) * 10, end=number * 10
        ).planned("kafka")
        for part in range(PARTITIONS)
    ]


def planned(plans: int) -> list[dict[str, Any]]:
    """Rows of a ledger in which each plan follows the one before it."""
    rows, follows = list[dict[str, Any]](), ""
    for number in range(1, plans + 1):
        identity = hashlib.sha256(str(number).encode()).hexdigest()
        rows.append(
            {
                "table": str(ITEM), "batch": number, "content_hash": identity, "run_id": f"run{number}",
                "files": [vars(one) for one in ranges(number)], "refused": [], "epoch": 0,
                "follows": follows, "planned_at": datetime.now(UTC),
            }
        )  # fmt: skip
        follows = identity
    return rows


def bookmark(batch: int, identity: str) -> CommitReport:
    """The bookmark of a published batch."""
    return CommitReport(
        table=str(ITEM), stage="ingestion", batch=batch, batches=1, content_hash=identity, follows="",
        epoch=0, run_id="run", committed_at=datetime.now(UTC).isoformat(),
    )  # fmt: skip


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--plans", type=int, nargs="+", default=[10_000, 50_000])
    print("| plans | way | first look, s | later ones, s | a plan, s |\n| --- | --- | --- | --- | --- |")
    for plans in parser.parse_args().plans:
        with tempfile.TemporaryDirectory(prefix="ledger_") as made:
            place = f"jdbc:sqlite:file:{Path(made)}/catalog.db"
            conf = {"type": "jdbc", "uri": place, "warehouse": f"{made}/warehouse"}
            catalog = MetadataCatalog({f"spark.sql.catalog.lake.{key}": value for key, value in conf.items()})
            store, rows = OpsStore(catalog), planned(plans)
            for first in range(0, plans, AT_ONCE):
                store.append(BATCH_LEDGER, rows[first : first + AT_ONCE])
            at, number = bookmark(plans, rows[-1]["content_hash"]), plans
            for remembers in (False, True):
                looks, taken = list[float](), list[float]()
                for _ in range(ROUNDS):
                    begun = time.perf_counter()
                    ledger = Ledger(store, ITEM, "run", remembers=remembers)
                    chain = ledger.chain(at)
                    _ = chain.read_ranges(), ledger.planned_ever()
                    looks.append(time.perf_counter() - begun)
                    number += 1
                    begun = time.perf_counter()
                    plan = ledger.plan(chain, ranges(number), {})
                    taken.append(time.perf_counter() - begun)
                    at = bookmark(plan.batch, plan.content_hash)
                way = "remembered" if remembers else "read whole"
                later, plan_seconds = statistics.median(looks[1:]), statistics.median(taken)
                print(
                    f"| {plans:,} | {way} | {looks[0]:.3f} | {later:.3f} | {plan_seconds:.3f} |", flush=True
                )
    print(f"\nload {load()}")


if __name__ == "__main__":
    main()
