"""A PostgreSQL database, Debezium and the loop: tables equal the database's, whatever is killed."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

pytest.importorskip("confluent_kafka", reason="`make test-streams` installs the extra kafka")
from harness.kafka import Connect
from harness.project import TemporaryProject, environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.kafka import Broker, Postgres

pytestmark = pytest.mark.streams

TRANSACTIONS: Final = 300
KILLS: Final = int(os.environ.get("KEDRO_LAKEHOUSE_KILLS") or 1)
"""How often each of the loop, the connector's worker and the broker is killed."""
SCHEMA: Final = """
CREATE TABLE ticket(id int PRIMARY KEY, holder text, price numeric(12,2));
CREATE TABLE audit(
  seq serial PRIMARY KEY, op text, id int, was int, holder text, price numeric(12,2), gate text);
CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF TG_OP = 'TRUNCATE' THEN INSERT INTO audit(op) VALUES ('truncate'); RETURN NULL; END IF;
  IF TG_OP = 'DELETE' THEN INSERT INTO audit(op, id) VALUES ('delete', OLD.id); RETURN NULL; END IF;
  INSERT INTO audit(op, id, was, holder, price, gate)
  VALUES ('upsert', NEW.id, CASE WHEN TG_OP = 'UPDATE' AND OLD.id <> NEW.id THEN OLD.id END,
          NEW.holder, NEW.price, to_jsonb(NEW)->>'gate');
  RETURN NULL;
END $$;
CREATE TRIGGER noted AFTER INSERT OR UPDATE OR DELETE ON ticket FOR EACH ROW EXECUTE FUNCTION note();
CREATE TRIGGER emptied AFTER TRUNCATE ON ticket EXECUTE FUNCTION note();
INSERT INTO ticket SELECT n, 'first', n FROM generate_series(1, 20) n;
"""


def transactions(seed: int, total: int) -> Iterator[str]:
    """Random transactions: sell, transfer, return, renumber; a column is added, the table emptied once."""
    rng = random.Random(seed)  # noqa: S311 - no secret
    held, column = set(range(1, 21)), ""
    for number in range(total):
        if number == total // 3:
            column = ", gate = 'g'"
            yield "ALTER TABLE ticket ADD COLUMN gate text;"
        if number == total // 2:
            held.clear()
            yield "TRUNCATE ticket;"
        body = []
        for _ in range(rng.randint(1, 3)):
            key, new = rng.choice(sorted(held) or [0]), rng.randint(1, 400)
            kind = rng.choice(("sell", "transfer", "transfer", "return", "renumber"))
            if kind == "sell" and new not in held:
                held.add(new)
                body.append(
                    f"INSERT INTO ticket(id, holder, price) VALUES ({new}, 'h{number}', {number}.25);"
                )
            elif kind == "transfer" and key in held:
                body.append(f"UPDATE ticket SET holder = 't{number}'{column} WHERE id = {key};")
            elif kind == "return" and key in held:
                held.remove(key)
                body.append(f"DELETE FROM ticket WHERE id = {key};")
            elif kind == "renumber" and key in held and new not in held:
                held.symmetric_difference_update((key, new))
                body.append(f"UPDATE ticket SET id = {new} WHERE id = {key};")
        yield f"BEGIN; {' '.join(body)} COMMIT;"


def rows_of(found: list[dict[str, Any]], *columns: str) -> list[tuple[str, ...]]:
    """Rows as psql prints them, sorted."""
    return sorted(tuple("" if r.get(c) is None else str(r[c]) for c in columns) for r in found)


class Following:
    """Debezium's connector and the loop over one table; each can be killed and started again."""

    def __init__(self, folder: Path, broker: Broker, postgres: Postgres, project: TemporaryProject) -> None:
        self.folder, self.broker, self.postgres, self.project = folder, broker, postgres, project
        self.connect = Connect(folder / "connect", broker, postgres, table_include_list="public.ticket")
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

    def catch_up(self) -> None:
        """Wait until the table holds what the database does, as long as the loop is there."""
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and self.loop.poll() is None:
            if found_in(self.project) == held_by(self.postgres):
                return
            time.sleep(0.5)

    def end(self) -> None:
        """Ask the loop to end, and see that it does so well."""
        self.loop.terminate()
        assert self.loop.wait(60) == 0, self.said

    @property
    def said(self) -> str:
        """The last words of the loop."""
        return (self.folder / "loop.log").read_text(encoding="utf-8")[-3000:]

    def stop(self) -> None:
        """Leave nothing running."""
        self.loop.kill()
        self.connect.stop()


@pytest.fixture
def following(
    broker: Broker, postgres: Postgres, tmp_path: Path, make_project: Callable[..., TemporaryProject]
) -> Iterator[Following]:
    """The loop follows a table of twenty rows, and has its snapshot."""
    postgres.script(SCHEMA)
    source = {"type": "kafka", "bootstrap_servers": broker.address, "topic": "pg.public.{entity}"}
    table = {"source": "pg", "keys": ["id"], "history": {}, "types": {"price": "decimal(12,2)"}}
    made = Following(tmp_path, broker, postgres, make_project({"pg": source}, {"box.ticket": table}))
    try:
        made.catch_up()  # what is before the snapshot comes as rows, not as changes
        postgres.sql("DELETE FROM audit")
        yield made
    finally:
        made.stop()
        broker.delete_topic("pg.public.ticket")
        postgres.script(
            "DROP TABLE ticket, audit CASCADE; DROP FUNCTION note; "
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots;"
        )


@pytest.mark.parametrize(("total", "kills"), [(TRANSACTIONS, 0), (TRANSACTIONS, KILLS)])
def test_the_loop_follows_a_database(following: Following, total: int, kills: int) -> None:
    postgres, project = following.postgres, following.project
    first = [tuple(r) for r in postgres.sql("SELECT id, holder, price, NULL FROM ticket")]
    steps = list(transactions(7 + kills, total))
    parts = [steps[start : start + 15] for start in range(0, len(steps), 15)]
    rng = random.Random(kills)  # noqa: S311 - no secret
    victims = ["loop", "connect", "broker"] * kills
    rng.shuffle(victims)
    for number, part in enumerate(parts):
        postgres.script("\n".join(part))
        time.sleep(rng.uniform(0.2, 0.8))
        for victim in victims[
            number * len(victims) // len(parts) : (number + 1) * len(victims) // len(parts)
        ]:
            following.kill(victim)
    following.catch_up()
    following.end()
    assert found_in(project) == held_by(postgres), following.said
    # Each change that the trigger wrote down is in the change log, once.
    audit = postgres.sql("SELECT op, id, holder, price, gate FROM audit ORDER BY seq")
    changes = project.rows("box.ticket_changes")
    upserts = rows_of([r for r in changes if r["_op"] == "upsert"], "id", "holder", "price", "gate")
    assert upserts == sorted([*first, *(tuple(r[1:]) for r in audit if r[0] == "upsert")])
    assert len([r for r in changes if r["_op"] == "truncate"]) == 1
    # The current row of each key is the open one of its history.
    history = [r for r in project.rows("box.ticket_history") if r["is_current"]]
    assert rows_of(history, "id", "holder", "price", "gate") == held_by(postgres)


def held_by(postgres: Postgres) -> list[tuple[str, ...]]:
    """The database's rows, sorted."""
    name = "to_jsonb(ticket)->>'gate'"  # the column may not be there yet
    return sorted(tuple(r) for r in postgres.sql(f"SELECT id, holder, price, {name} FROM ticket"))


def found_in(project: TemporaryProject) -> list[tuple[str, ...]]:
    """The table's rows as psql prints the database's."""
    try:
        return rows_of(project.rows("box.ticket"), "id", "holder", "price", "gate")
    except (AssertionError, KeyError, ValueError):
        return []
