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
from harness.databases import INSTALLED_BY, is_installed
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

    from harness.kafka import Broker
    from harness.tickets import Row

pytestmark = pytest.mark.streams

TRANSACTIONS: Final = 2_000 if soaking() else 150
PEOPLE, TICKETS = (5_000, 10_000) if soaking() else (300, 600)
KILLS: Final = int(os.environ.get("KEDRO_LAKEHOUSE_KILLS") or (10 if soaking() else 1))
"""How often each of the loop, the connector's worker and the broker is killed."""
PROGRAMS: Final = {"postgres": "initdb", "mariadb": "mariadbd"}
PART: Final = 15
"""Transactions between two pauses, in which something may be killed."""
PATIENCE: Final = 600 if soaking() else 300


Table = tuple[TicketOffice, str]
"""A table that is followed: the ticket office, and the table's name there."""


class Following:
    """Debezium's connectors and the loop over tables of ticket offices; each can be killed and started."""

    def __init__(self, folder: Path, broker: Broker, offices: list[TicketOffice]) -> None:
        self.folder, self.broker = folder, broker
        self.tables: list[Table] = [(office, table) for office in offices for table in COLUMNS]
        self.topics = {(o.name, t): f"{o.name}.{o.schema}.{t}" for o, t in self.tables}
        for topic in self.topics.values():
            broker.make_topic(topic, 3)
        kafka = {"type": "kafka", "bootstrap_servers": broker.address}
        self.project = TemporaryProject.make(
            folder / "project",
            {o.name: kafka | {"topic": f"{o.name}.{o.schema}.{{entity}}"} for o in offices},
            {f"{o.name}.{t}": {"source": o.name, "keys": KEYS[t], "history": {}} for o, t in self.tables},
        )
        self.connect = Connect(
            folder / "connect", broker, *(office.database for office in offices),
            table_include_list=",".join(f"{o.schema}.{t}" for o, t in self.tables),
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

    def rows(self, table: Table) -> Counter[Row]:
        """The current rows."""
        office, name = table
        return Counter(office.row(name, row) for row in self._stored(table))

    def versions(self, table: Table, *, snapshot: bool) -> Counter[Row]:
        """The history: (row, from, to). Since when a row of the snapshot is there, nobody knows."""
        office, name = table
        stored = self._stored(table, "_history")
        begin = min((_position(r) for r in stored), default=()) if snapshot else None
        return Counter(
            (
                office.row(name, r),
                None if _position(r) == begin else r["effective_from"],
                r["effective_to"],
            )
            for r in stored
        )

    def events(self, table: Table) -> Counter[Row]:
        """The change log: (operation, row or key)."""
        office, name = table
        found: Counter[Row] = Counter()
        for r in self._stored(table, "_changes"):
            row = None if r["_op"] == "truncate" else office.row(name, r)
            found[r["_op"], office.key(name, row) if r["_op"] == "delete" else row] += 1
        return found

    def _stored(self, table: Table, role: str = "") -> list[dict[str, Any]]:
        try:
            return self.project.rows(f"{table[0].name}.{table[1]}{role}")
        except (AssertionError, ValueError):
            return []  # the table is being made


def _position(version: dict[str, Any]) -> Row:
    """Where in the database's log a version begins; all rows of a snapshot share one place."""
    return tuple(version["_order_from"].values())


@pytest.fixture
def offices(request: pytest.FixtureRequest) -> Iterator[list[TicketOffice]]:
    """A ticket office in each database that is installed; what is missing is said by test_mariadb.py."""
    kinds = [kind for kind, program in PROGRAMS.items() if is_installed(program)]
    if not kinds:
        pytest.skip("; ".join(INSTALLED_BY.values()))
    opened = [TicketOffice(request.getfixturevalue(kind), PEOPLE, TICKETS) for kind in kinds]
    try:
        for office in opened:
            office.open()
        yield opened
    finally:
        for office in opened:
            office.close()


@pytest.fixture
def following(broker: Broker, offices: list[TicketOffice], tmp_path: Path) -> Iterator[Following]:
    """The loop follows the tables of all offices."""
    made = Following(tmp_path, broker, offices)
    try:
        yield made
    finally:
        made.stop()
        for office in offices:
            office.database.forget()


@pytest.mark.parametrize("kills", [0, KILLS] if soaking() else [KILLS])
def test_tables_are_what_the_databases_wrote_down(
    following: Following, offices: list[TicketOffice], kills: int
) -> None:
    tables = following.tables
    first = [Counter(office.held(name)) for office, name in tables]
    # What the snapshots find comes as rows, what follows them as changes.
    following.wait_until(lambda: [following.rows(t) for t in tables] == first)
    for office in offices:
        office.forget_audit()
    work(following, offices, kills)

    audit = [office.audit(name) for office, name in tables]
    held = [Counter(office.held(name)) for office, name in tables]
    events = [expected_events(*t, f, a) for t, f, a in zip(tables, first, audit, strict=True)]
    versions = [expected_history(*t, f, a) for t, f, a in zip(tables, first, audit, strict=True)]

    def kept() -> list[Counter[Row]]:
        return [following.versions(t, snapshot=bool(f)) for t, f in zip(tables, first, strict=True)]

    following.wait_until(lambda: [following.rows(t) for t in tables] == held)
    following.wait_until(lambda: kept() == versions)
    following.end()
    for n, (table, version) in enumerate(zip(tables, kept(), strict=True)):
        what = f"{table[1]} of {table[0].name}"
        assert_same(following.rows(table), held[n], f"{what}\n{following.said}")
        assert_same(version, versions[n], f"the history of {what}")
        assert_same(following.events(table), events[n], f"the changes of {what}")
        # The workload is no empty one.
        assert {noted.op for noted in audit[n]} >= {"INSERT", "UPDATE", "DELETE"}, what
        told(following, table, events[n])


def work(following: Following, offices: list[TicketOffice], kills: int) -> None:
    """Let two clients of each office work at once, alter and truncate tables, and kill what follows them."""
    rng = random.Random(kills)  # noqa: S311 - no secret
    victims = ["loop", "connect", "broker"] * kills
    rng.shuffle(victims)
    parts = TRANSACTIONS // PART
    with ThreadPoolExecutor(2 * len(offices)) as clients:
        for number in range(parts):
            halves = []
            for office in offices:
                if number == parts // 3:
                    office.add_email()
                if number == parts // 2:
                    office.empty(SALE)
                if number == parts * 3 // 4:
                    office.empty(TICKET)
                    office.restock()
                steps = list(transactions(rng, office, PART, number * PART))
                halves += [(office, steps[::2]), (office, steps[1::2])]
            # A deadlock or a key that is there already rolls something back: the audit knows.
            done = clients.map(lambda half: half[0].run("\n".join(half[1]), to_the_end=True), halves)
            assert len(list(done)) == len(halves)
            time.sleep(rng.uniform(0.2, 0.8))
            for victim in victims[number * len(victims) // parts : (number + 1) * len(victims) // parts]:
                following.kill(victim)


def assert_same(found: Counter[Row], expected: Counter[Row], what: str) -> None:
    """See that two bags are one; only what differs is told."""
    lost, doubled = expected - found, found - expected
    assert not lost, f"{what}: {lost.total()} lost: {list(lost)[:3]}; {list(doubled)[:3]}"
    assert not doubled, f"{what}: {doubled.total()} too many: {list(doubled)[:3]}"


def told(following: Following, table: Table, events: Counter[Row]) -> None:
    """Say how much was followed, and how many records Debezium sent again; each delete has a tombstone."""
    office, name = table
    sent = sum(following.broker.ends(following.topics[office.name, name]).values())
    tombstones = sum(n for (op, _), n in events.items() if op == "delete")
    again = sent - events.total() - tombstones
    print(f"{office.name}.{name}: {events.total()} events, {again} records sent again")  # noqa: T201
