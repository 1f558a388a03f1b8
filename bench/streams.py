"""A topic's backlog into tables beside Structured Streaming, a backlog with poison, and how late rows are.

Usage: ``.venv/bin/python bench/streams.py [--messages 1000000] [--poison 0] [--no-peer] [--latency 60]
[--start 40] [--database [--schemas]] [--cycles 1000]``.

Messages of 200 bytes in four partitions, an object in JSON each, ten for each key, become a current table
and a history in batches of at most 250,000 records; a topic of 200,000 warms Spark up. Beside it, in a
process of its own, Spark's Structured Streaming merges the same topic into one table (``plain_stream.py``).
With ``--poison N`` every N-th message is no JSON. Exits 1 where rows are lost or doubled, or where what is
no JSON is not in quarantine as it was.

With ``--latency SECONDS`` only this: how late the loop is that follows ten tables, see stream_latency.py.

With ``--cycles N`` only this: the loop makes so many small batches of one table, see stream_cycles.py.

The broker needs what ``make test-streams`` installs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lake import ROOT, BenchProject, event_log, load, print_machine

sys.path.append(str(ROOT / "tests"))

from confluent_kafka import Producer
from harness.kafka import running_broker
from stream_cycles import run_cycles
from stream_latency import latencies

from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from kedro_lakehouse.project import Project

PARTITIONS, VERSIONS, AT_ONCE, WARM = 4, 10, 250_000, 200_000
TABLE = {
    "source": "shop", "keys": ["id"], "order_by": ["at"], "types": {"id": "long", "at": "long", "n": "long"},
    "history": {},
}  # fmt: skip
PIPELINES = ("ingestion", "cdc_merge", "scd2")


def message(number: int, keys: int) -> str:
    """A message of 200 bytes."""
    text = json.dumps({"id": number % keys, "at": number, "n": number, "pad": ""})
    return text[:-2] + "x" * (200 - len(text)) + '"}'


def poison(number: int) -> str:
    """A message that is no JSON; no two are alike."""
    return f'{{"id": {number}, "at": broken'


def send(address: str, topic: str, number: int, every: int) -> None:
    """Send messages, those of a key to one partition."""
    producer = Producer(
        {"bootstrap.servers": address, "linger.ms": 50, "queue.buffering.max.messages": 200_000}
    )
    keys = number // VERSIONS
    for i in range(number):
        text = poison(i) if every and i % every == every - 1 else message(i, keys)
        producer.produce(topic, text, partition=i % keys % PARTITIONS)
        if i % 10_000 == 0:
            producer.flush()
    producer.flush()


def wrong(project: Project, number: int, every: int) -> list[str]:
    """What the tables lack or have too much, by the messages that were sent."""
    keys = number // VERSIONS
    is_poison = [bool(every) and i % every == every - 1 for i in range(number)]
    newest = {i % keys: i for i in range(number) if not is_poison[i]}
    name, found = TableName("shop", "item"), []
    held = project.catalog.find(name).scan(selected_fields=("id", "at")).to_arrow()
    rows = dict(zip(held["id"].to_pylist(), held["at"].to_pylist(), strict=True))
    if rows != newest or held.num_rows != len(newest):
        found.append("current")
    good = is_poison.count(False)
    if project.catalog.rows(name.with_suffix("history")) != good:
        found.append("history")
    if every:
        stored = project.catalog.find(name.with_suffix("quarantine"))
        raws = stored.scan(selected_fields=("_raw",)).to_arrow()["_raw"].to_pylist() if stored else []
        if sorted(raws) != sorted(poison(i) for i in range(number) if is_poison[i]):
            found.append("quarantine")
    return found


def show(what: str, number: int, taken: float) -> None:
    """Print a row of the table."""
    print(
        f"| {what} | {number:,} | {taken:.1f} s | {number / taken:,.0f} a second | load {load()} |",
        flush=True,
    )


def main() -> int:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--poison", type=int, default=0)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--latency", type=int, default=0)
    parser.add_argument(
        "--start", type=int, default=40, help="seconds before that are measured, with --latency"
    )
    parser.add_argument("--database", action="store_true", help="rows of PostgreSQL, with --latency")
    parser.add_argument("--schemas", action="store_true", help="in the messages, with --database")
    parser.add_argument("--cycles", type=int, default=0)
    parser.add_argument(
        "--maintain", default="30 s", help="how long after its last maintenance, with --cycles"
    )
    parser.add_argument("--folder", type=Path, help="where to work, with --cycles")
    parser.add_argument("--event-log", type=Path, help="a folder for Spark's event log, see spark_jobs.py")
    asked = parser.parse_args()
    if asked.latency:
        with tempfile.TemporaryDirectory(prefix="streams_") as made:
            late = latencies(
                Path(made), asked.latency, asked.start, database=asked.database, schemas=asked.schemas
            )
        median, last = late[len(late) // 2], late[len(late) * 99 // 100]
        print(f"{len(late):,} rows: median {median:.1f} s, 99th percentile {last:.1f} s, load {load()}")
        return 0
    if asked.cycles:
        with tempfile.TemporaryDirectory(prefix="streams_", dir=asked.folder) as made:
            failed = run_cycles(Path(made), TABLE, asked.cycles, asked.maintain)
        print(f"wrong: {failed or 'nothing'}")
        return 1 if failed else 0
    with tempfile.TemporaryDirectory(prefix="streams_") as made:
        folder = Path(made)
        with running_broker(folder / "broker") as broker:
            for topic, number, every in (("warm", WARM, 0), ("item", asked.messages, asked.poison)):
                broker.make_topic(topic, PARTITIONS)
                send(broker.address, topic, number, every)
            source: dict[str, Any] = {
                "type": "kafka", "bootstrap_servers": broker.address, "decoder": "json",
                "max_records": AT_ONCE,
            }  # fmt: skip
            bench = BenchProject(folder)
            spark = event_log(asked.event_log) if asked.event_log else {}
            bench.write({"shop": source}, {"shop.warm": TABLE}, spark)
            bench.run(*PIPELINES)
            bench.write({"shop": source}, {"shop.item": TABLE}, spark)
            begun = time.perf_counter()
            project = bench.run(*PIPELINES)
            show("current and history", asked.messages, time.perf_counter() - begun)
            failed = wrong(project, asked.messages, asked.poison)
            print_machine(project, "pyiceberg")
            project.session.stop()
            if not asked.no_peer:
                words = [ROOT / "bench/plain_stream.py", broker.address, "item", folder / "plain"]
                done = subprocess.run([sys.executable, *words], check=True, capture_output=True, text=True)
                lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
                peer = json.loads(lines[-1])
                show("foreachBatch, one MERGE, current only", asked.messages, peer["seconds"])
                if peer["rows"] != asked.messages // VERSIONS:
                    failed.append(f"foreachBatch: {peer['rows']:,} rows")
    print(f"wrong: {failed or 'nothing'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
