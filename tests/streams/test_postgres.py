"""A PostgreSQL database, Debezium and the loop: tables equal the database's, whatever is killed."""

from __future__ import annotations

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
    from collections.abc import Iterator

    from harness.kafka import Broker, Postgres

pytestmark = pytest.mark.streams

TRANSACTIONS: Final = 300
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


def test_the_loop_follows_a_database(
    broker: Broker, postgres: Postgres, tmp_path: Path, make_project: Any
) -> None:
    postgres.script(SCHEMA)
    connect = Connect(tmp_path / "connect", broker, postgres, table_include_list="public.ticket")
    source = {"type": "kafka", "bootstrap_servers": broker.address, "topic": "pg.public.{entity}"}
    table = {"source": "pg", "keys": ["id"], "history": {}, "types": {"price": "decimal(12,2)"}}
    project: TemporaryProject = make_project({"pg": source}, {"box.ticket": table})
    kedro = str(Path(sys.executable).with_name("kedro"))
    log = (tmp_path / "loop.log").open("wb")
    loop = subprocess.Popen(
        [kedro, "lakehouse", "stream", "--every", "1 s"],
        cwd=project.path, stdout=log, stderr=log, env=environment(),
    )  # fmt: skip
    try:
        await_rows(project, postgres, loop)  # the snapshot: what is before it comes as rows, not as changes
        first = [tuple(r) for r in postgres.sql("SELECT id, holder, price, NULL FROM ticket")]
        postgres.sql("DELETE FROM audit")
        steps = list(transactions(7, TRANSACTIONS))
        for start in range(0, len(steps), 15):
            postgres.script("\n".join(steps[start : start + 15]))
            time.sleep(0.5)
        await_rows(project, postgres, loop)
        loop.terminate()
        assert loop.wait(60) == 0, (tmp_path / "loop.log").read_text()[-3000:]
    finally:
        loop.kill()
        connect.stop()
        log.close()
    assert found_in(project) == held_by(postgres), (tmp_path / "loop.log").read_text()[-3000:]
    # Each change that the trigger wrote down is in the change log, once.
    audit = postgres.sql("SELECT op, id, holder, price, gate FROM audit ORDER BY seq")
    changes = project.rows("box.ticket_changes")
    upserts = rows_of([r for r in changes if r["_op"] == "upsert"], "id", "holder", "price", "gate")
    assert upserts == sorted([*first, *(tuple(r[1:]) for r in audit if r[0] == "upsert")])
    assert len([r for r in changes if r["_op"] == "truncate"]) == 1


def held_by(postgres: Postgres) -> list[tuple[str, ...]]:
    """The database's rows, sorted."""
    name = "to_jsonb(ticket)->>'gate'"  # the column may not be there yet
    return sorted(tuple(r) for r in postgres.sql(f"SELECT id, holder, price, {name} FROM ticket"))


def await_rows(project: TemporaryProject, postgres: Postgres, loop: subprocess.Popen[bytes]) -> None:
    """Wait until the table holds what the database does, as long as the loop is there."""
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and loop.poll() is None:
        if found_in(project) == held_by(postgres):
            return
        time.sleep(0.5)


def found_in(project: TemporaryProject) -> list[tuple[str, ...]]:
    """The table's rows as psql prints the database's."""
    try:
        return rows_of(project.rows("box.ticket"), "id", "holder", "price", "gate")
    except (AssertionError, KeyError, ValueError):
        return []
