"""How late rows are that the loop brings into tables: from a message, or from a database's commit.

``streams.py --latency SECONDS`` runs it. Ten tables get ten changes a second each for that time, while
``kedro lakehouse stream --every '1 s'`` follows them. A row is late by the time from its change to the commit
of the current table that holds it. The change is a message in plain JSON, or with ``--database`` a
transaction in PostgreSQL, which Debezium captures: the row holds the server's clock, read in the statement
that the transaction consists of. With ``--schemas`` each message of Debezium has its schema in it, and exact
decimals in place of their text.
"""

from __future__ import annotations

import json
import subprocess
import time
from typing import TYPE_CHECKING, Any, Protocol

from confluent_kafka import Producer
from harness.databases import Postgres
from harness.kafka import Connect, running_broker
from lake import ROOT, BenchProject

from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.store import BATCHES

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from harness.kafka import Broker

    from kedro_lakehouse.project import Project

NAMES = [f"t{number}" for number in range(10)]
KEYS, A_SECOND, END = 500, 10, 90
"""END: the seconds that the last batches may take."""


class Feed(Protocol):
    """What is changed while the loop follows it."""

    source: Mapping[str, Any]
    table: Mapping[str, Any]

    def change(self, number: int) -> None:
        """Change a row of each table; the row's column ``at`` tells when."""

    def flush(self) -> None:
        """Wait until everything is written."""

    def stop(self) -> None:
        """End its servers."""


class Messages:
    """Rows as messages in plain JSON, a topic for each table."""

    def __init__(self, broker: Broker) -> None:
        """Make the topics."""
        for name in NAMES:
            broker.make_topic(name, 2)
        self.source = {"type": "kafka", "bootstrap_servers": broker.address, "decoder": "json"}
        self.table = {
            "source": "shop", "keys": ["id"], "order_by": ["at"], "history": {},
            "types": {"id": "long", "at": "long", "n": "long"},
        }  # fmt: skip
        self._producer = Producer({"bootstrap.servers": broker.address, "linger.ms": 5})

    def change(self, number: int) -> None:
        """Send a row to each topic."""
        for name in NAMES:
            row = {"id": number % KEYS, "at": time.time_ns() // 1000, "n": number}
            self._producer.produce(name, json.dumps(row), partition=number % 2)
        self._producer.poll(0)

    def flush(self) -> None:
        """Wait until the broker has all."""
        self._producer.flush()

    def stop(self) -> None:
        """Do nothing: there is only the broker."""


class Database:
    """Tables of PostgreSQL, whose changes Debezium sends to a topic each."""

    def __init__(self, folder: Path, broker: Broker, *, schemas: bool) -> None:
        """Start the server and Kafka Connect, and make tables and topics."""
        self._postgres = Postgres(folder / "postgres")
        for name in NAMES:
            broker.make_topic(f"pg.public.{name}", 2)
            self._postgres.script(
                f"CREATE TABLE {name}(id bigint PRIMARY KEY, n bigint, price numeric(10, 2), day date, "
                "label text, at timestamptz);"
            )
        self._connect = Connect(
            folder / "connect", broker, self._postgres,
            decimal_handling_mode="precise" if schemas else "string",
            value_converter_schemas_enable=str(schemas).lower(),
        )  # fmt: skip
        self.source = {
            "type": "kafka", "bootstrap_servers": broker.address, "topic": "pg.public.{entity}",
        }  # fmt: skip
        kinds = {"id": "long", "n": "long", "price": "decimal(10,2)", "day": "date", "at": "timestamp"}
        self.table = {"source": "shop", "keys": ["id"], "history": {}} | ({} if schemas else {"types": kinds})
        while "t" not in self._postgres.script("SELECT active FROM pg_replication_slots;"):
            time.sleep(0.2)
        self._session = subprocess.Popen(self._postgres.client(), stdin=subprocess.PIPE, text=True)

    def change(self, number: int) -> None:
        """Insert or update a row of each table, in a transaction of its own."""
        pipe = self._session.stdin
        assert pipe is not None  # noqa: S101 - it was asked for
        for name in NAMES:
            values = f"{number}, {number}.25, current_date, 'n{number}', clock_timestamp()"
            pipe.write(
                f"INSERT INTO {name} VALUES ({number % KEYS}, {values}) ON CONFLICT (id) DO UPDATE SET "
                "n = excluded.n, price = excluded.price, day = excluded.day, label = excluded.label, "
                "at = clock_timestamp();\n"
            )
        pipe.flush()

    def flush(self) -> None:
        """Wait until the database has committed all."""
        self._session.communicate()

    def stop(self) -> None:
        """End what runs."""
        self._session.kill()
        self._connect.stop()
        self._postgres.stop()


def latencies(
    folder: Path, seconds: int, start: int, *, database: bool = False, schemas: bool = False
) -> list[float]:
    """How late each row was that came while the loop ran, in seconds, sorted; without the loop's start.

    Args:
        folder: Where to work.
        seconds: For how long rows are measured.
        start: The seconds before that, in which Spark starts and makes the first batches.
        database: Whether the rows come from a database.
        schemas: Whether its messages have schemas.

    Raises:
        RuntimeError: A change is not in the change log.
    """
    with running_broker(folder / "broker") as broker:
        feed: Feed = Database(folder, broker, schemas=schemas) if database else Messages(broker)
        try:
            bench = BenchProject(folder / "project")
            bench.write({"shop": feed.source}, {f"shop.{name}": feed.table for name in NAMES})
            begun, changes = _followed(bench.folder, feed, start + seconds)
            project = bench.open()
        finally:
            feed.stop()
        late = []
        for name in NAMES:
            found = _lateness(project, TableName("shop", name))
            if len(found) != changes:
                raise RuntimeError(f"{name}: {changes} changes, {len(found)} in the change log")
            late += [published - at for at, published in found if at >= begun + start]
        project.session.stop()
    return sorted(late)


def _followed(folder: Path, feed: Feed, seconds: float) -> tuple[float, int]:
    """Let the loop follow changes for so many seconds; when the first one was made, and their number."""
    words = [ROOT / ".venv/bin/kedro", "lakehouse", "stream", "--every", "1 s", "--until-idle"]
    number, begun = 0, time.time()
    with (folder / "loop.txt").open("wb") as log:
        loop = subprocess.Popen(words, cwd=folder, stdout=log, stderr=subprocess.STDOUT)
        while (now := time.time()) < begun + seconds:
            feed.change(number)
            number += 1
            time.sleep(max(0.0, now + 1 / A_SECOND - time.time()))
        feed.flush()
        try:
            loop.wait(END)
        finally:
            loop.kill()
    return begun, number


def _lateness(project: Project, table: TableName) -> list[tuple[float, float]]:
    """When each event of a table was made, and when the current table had it, in seconds."""
    commits = sorted(
        (row["batch"], row["committed_at"].timestamp())
        for row in project.ops.read(BATCHES, of_table=str(table))
        if row["stage"] == "current"
    )
    log = project.catalog.find(table.with_suffix("changes")).scan(selected_fields=("at", "_batch"))
    return [
        (_seconds(row["at"]), next(at for batch, at in commits if batch >= row["_batch"]))
        for row in log.to_arrow().to_pylist()
    ]


def _seconds(at: Any) -> float:
    return at / 1e6 if isinstance(at, int) else float(at.timestamp())
