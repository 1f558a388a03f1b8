"""A real database is the oracle: its ticket office works while the loop follows it, and what runs is killed.

At the end the tables equal the database's, the histories are what its triggers wrote down, and each change is
in the change log once.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

pytest.importorskip("confluent_kafka", reason="`make test-streams` installs the extra kafka")
from harness.kafka import Connect
from harness.project import TemporaryProject, environment
from harness.soak import soaking
from harness.tickets import (
    COLUMNS,
    KEYS,
    SALE,
    TICKET,
    TicketOffice,
    expected_events,
    expected_history,
    transactions,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.databases import MariaDb, Postgres
    from harness.kafka import Broker
    from harness.tickets import Row

pytestmark = pytest.mark.streams

TRANSACTIONS: Final = 2_000 if soaking() else 150
PEOPLE, TICKETS = (5_000, 10_000) if soaking() else (300, 600)
KILLS: Final = int(os.environ.get("KEDRO_LAKEHOUSE_KILLS") or (10 if soaking() else 1))
"""How often each of the loop, the connector's worker and the broker is killed."""
PART: Final = 15
"""Transactions between two pauses, in which something may be killed."""
PATIENCE: Final = 600 if soaking() else 150


class Following:
    """Debezium's connector and the loop over a ticket office's tables; each can be killed and started."""

    def __init__(self, folder: Path, broker: Broker, office: TicketOffice, prefix: str) -> None:
        self.folder, self.broker, self.office = folder, broker, office
        self.topics = {table: f"{prefix}.{table}" for table in COLUMNS}
        schema = prefix.split(".")[1]
        source = {
            "type": "kafka", "bootstrap_servers": broker.address, "topic": f"{prefix}.{{entity}}",
        }  # fmt: skip
        tables = {f"box.{t}": {"source": "office", "keys": KEYS[t], "history": {}} for t in COLUMNS}
        self.project = TemporaryProject.make(folder / "project", {"office": source}, tables)
        for topic in self.topics.values():
            broker.make_topic(topic, 3)
        self.connect = Connect(
            folder / "connect", broker, office.database,
            table_include_list=",".join(f"{schema}.{table}" for table in COLUMNS),
            decimal_handling_mode="precise", value_converter_schemas_enable="true",
        )  # fmt: skip
        self.start_loop()

    def start_loop(self) -> None:
        """Start the loop as a user does."""
        kedro = str(Path(sys.executable).with_name("kedro"))
        with (self.folder / "loop.log").open("ab") as log:
            self.loop = subprocess.Popen(
                [kedro, "lakehouse", "stream", "--every", "1 s"],
                cwd=self.project.path, stdout=log, stderr=log, env=environment(),
            )  # fmt: skip

    def kill(self, what: str) -> None:
        """Kill the loop, the connector's worker or the broker as a power cut would, and start it again."""
        if what == "loop":
            self.loop.kill()
            self.loop.wait()
            self.start_loop()
        else:
            killed = self.connect if what == "connect" else self.broker
            killed.kill()
            killed.start()

    def wait_until(self, reached: Callable[[], bool]) -> None:
        """Wait until something is so, as long as the loop is there; whether it is so is asked again later."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline and self.loop.poll() is None and not reached():
            time.sleep(1)

    def end(self) -> None:
        """Ask the loop to end, and see that it does so well."""
        self.loop.terminate()
        assert self.loop.wait(60) == 0, self.said

    @property
    def said(self) -> str:
        """The last words of the loop and of the connector."""
        logs = (self.folder / "loop.log", self.connect.log)
        return "\n".join(log.read_text(encoding="utf-8", errors="replace")[-3000:] for log in logs)

    def stop(self) -> None:
        """Leave nothing running, and no topic."""
        self.loop.kill()
        self.loop.wait()
        self.connect.stop()
        for topic in self.topics.values():
            self.broker.delete_topic(topic)

    # What the tables hold.

    def rows(self, table: str) -> Counter[Row]:
        """The current rows."""
        return Counter(self.office.row(table, row) for row in self._stored(f"box.{table}"))

    def versions(self, table: str, *, snapshot: bool) -> Counter[Row]:
        """The history: (row, from, to). Since when a row of the snapshot is there, nobody knows."""
        stored = self._stored(f"box.{table}_history")
        begin = min((_position(r) for r in stored), default=()) if snapshot else None
        return Counter(
            (
                self.office.row(table, r),
                None if _position(r) == begin else r["effective_from"],
                r["effective_to"],
            )
            for r in stored
        )

    def events(self, table: str) -> Counter[Row]:
        """The change log: (operation, row or key)."""
        found: Counter[Row] = Counter()
        for r in self._stored(f"box.{table}_changes"):
            row = None if r["_op"] == "truncate" else self.office.row(table, r)
            found[r["_op"], self.office.key(table, row) if r["_op"] == "delete" else row] += 1
        return found

    def _stored(self, table: str) -> list[dict[str, Any]]:
        try:
            return self.project.rows(table)
        except (AssertionError, ValueError):
            return []  # the table is being made


def _position(version: dict[str, Any]) -> Row:
    """Where in the database's log a version begins; all rows of a snapshot share one place."""
    return tuple(version["_order_from"].values())


@pytest.fixture(params=["postgres", "mariadb"])
def office(request: pytest.FixtureRequest) -> Iterator[TicketOffice]:
    """A ticket office in a real database."""
    database: Postgres | MariaDb = request.getfixturevalue(request.param)
    opened = TicketOffice(database, PEOPLE, TICKETS)
    try:
        opened.open()
        yield opened
    finally:
        opened.close()


@pytest.fixture
def following(broker: Broker, office: TicketOffice, tmp_path: Path) -> Iterator[Following]:
    """The loop follows the tables, and has their snapshots."""
    made = Following(tmp_path, broker, office, office.topics)
    try:
        yield made
    finally:
        made.stop()
        office.database.forget()


@pytest.mark.parametrize("kills", [0, KILLS] if soaking() else [KILLS])
def test_tables_and_histories_are_what_the_database_wrote_down(following: Following, kills: int) -> None:
    office = following.office
    first = {table: office.held(table) for table in COLUMNS}
    # What the snapshot finds comes as rows, what follows it as changes.
    following.wait_until(lambda: all(following.rows(t) == Counter(first[t]) for t in (*COLUMNS,) if first[t]))
    office.forget_audit()
    work(following, kills)

    audit = {table: office.audit(table) for table in COLUMNS}
    held = {t: Counter(office.held(t)) for t in COLUMNS}
    versions = {t: expected_history(office, t, first[t], audit[t]) for t in COLUMNS}
    events = {t: expected_events(office, t, first[t], audit[t]) for t in COLUMNS}

    def kept(table: str) -> Counter[Row]:
        return following.versions(table, snapshot=bool(first[table]))

    following.wait_until(lambda: all(following.rows(t) == held[t] for t in COLUMNS))
    following.wait_until(lambda: all(kept(t) == versions[t] for t in COLUMNS))
    following.end()
    for table in COLUMNS:
        assert_same(following.rows(table), held[table], f"{table}\n{following.said}")
        assert_same(kept(table), versions[table], f"history of {table}")
        assert_same(following.events(table), events[table], f"changes of {table}")
        # The workload is no empty one.
        assert {n.op for n in audit[table]} >= {"INSERT", "UPDATE", "DELETE"}, table
    told(following, events)


def work(following: Following, kills: int) -> None:
    """Let two clients work at once, pause, alter and truncate tables, and kill what follows."""
    office, rng = following.office, random.Random(kills)  # noqa: S311 - no secret
    victims = ["loop", "connect", "broker"] * kills
    rng.shuffle(victims)
    parts = TRANSACTIONS // PART
    between = {
        parts // 3: office.add_email,
        parts // 2: lambda: office.empty(SALE),
        parts * 3 // 4: lambda: (office.empty(TICKET), office.restock()),
    }
    with ThreadPoolExecutor(2) as clients:
        for number in range(parts):
            between.get(number, lambda: None)()
            steps = list(transactions(rng, office, PART, number * PART))
            # A deadlock or a key that is there already rolls a transaction back: the audit knows.
            halves = ["\n".join(steps[::2]), "\n".join(steps[1::2])]
            for done in [clients.submit(office.run, half, to_the_end=True) for half in halves]:
                done.result()
            time.sleep(rng.uniform(0.2, 0.8))
            for victim in victims[number * len(victims) // parts : (number + 1) * len(victims) // parts]:
                following.kill(victim)


def assert_same(found: Counter[Row], expected: Counter[Row], what: str) -> None:
    """See that two bags are one; only what differs is told."""
    lost, doubled = expected - found, found - expected
    assert not lost, f"{what}: {lost.total()} lost: {list(lost)[:3]}; {list(doubled)[:3]}"
    assert not doubled, f"{what}: {doubled.total()} too many: {list(doubled)[:3]}"


def told(following: Following, events: dict[str, Counter[Row]]) -> None:
    """Say how much was followed, and how many records Debezium sent again; each delete has a tombstone."""
    made = sum(e.total() for e in events.values())
    sent = sum(sum(following.broker.ends(t).values()) for t in following.topics.values())
    tombstones = sum(n for e in events.values() for (op, _), n in e.items() if op == "delete")
    kind = type(following.office.database).__name__
    print(f"{kind}: {made} events, {sent - made - tombstones} records sent again")  # noqa: T201
