"""The ticket office of dms_sample in a real database: its functions, an audit, and what the audit expects.

The database writes every version of every row down by triggers. That audit is the oracle of the tables that
follow the database through a topic: which rows there are, which versions there were, and what was an event.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow.parquet as pq

from harness.databases import Postgres
from harness.project import DATA

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Iterator

    from harness.databases import MariaDb

SCRIPTS: Final = Path(__file__).resolve().parents[1] / "data"
PERSON, TICKET, SALE = "person", "sporting_event_ticket", "ticket_purchase_hist"
COLUMNS: Final[dict[str, dict[str, str]]] = {
    PERSON: {"id": "float", "full_name": "text", "last_name": "text", "first_name": "text"},
    TICKET: {
        "id": "float", "sporting_event_id": "float", "sport_location_id": "float", "seat_level": "level",
        "seat_section": "text", "seat_row": "text", "seat": "text", "ticketholder_id": "float",
        "ticket_price": "money",
    },
    SALE: {
        "sporting_event_ticket_id": "float", "purchased_by_id": "float", "transaction_date_time": "time",
        "transferred_from_id": "float", "purchase_price": "money",
    },
}  # fmt: skip
EMAIL: Final = "email"
"""The column that persons get while the tables are followed."""
KEYS: Final = {PERSON: ["id"], TICKET: ["id"], SALE: list(COLUMNS[SALE])[:3]}
_KINDS: Final = {
    "float": "double precision",
    "text": "varchar(60)",
    "level": "numeric(1,0)",
    "money": "numeric(8,2)",
}
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Noted:
    """A line of the audit: what a statement did to a row, and when; a TRUNCATE has no row."""

    op: str
    was: Row | None
    now: Row | None
    at: datetime


@dataclass
class TicketOffice:
    """Persons, tickets and sales in a database, whose triggers write every change down."""

    database: Postgres | MariaDb
    people: int
    tickets: int
    columns: dict[str, list[str]] = field(default_factory=lambda: {t: list(c) for t, c in COLUMNS.items()})

    def open(self) -> None:
        """Make the tables with the first persons and tickets of the bundled data, functions and triggers."""
        kind = "postgres" if self._is_postgres else "mariadb"
        if not self._is_postgres:
            self.database.script("CREATE OR REPLACE DATABASE shop;")
        script = (SCRIPTS / f"tickets_{kind}.sql").read_text(encoding="utf-8")
        times = _KINDS | {"time": "timestamp(6)" if self._is_postgres else "datetime(6)"}
        for table, columns in COLUMNS.items():
            declared = ", ".join(f"{name} {times[kind]}" for name, kind in columns.items())
            self.run(f"CREATE TABLE {table}({declared}, PRIMARY KEY ({', '.join(KEYS[table])}));")
        for table, wanted in ((PERSON, self.people), (TICKET, self.tickets)):
            self.run(_inserted(table, wanted))
        self.run(f"CREATE TABLE stock AS SELECT * FROM {TICKET} WHERE id < {self.tickets * 5};")
        self.run(script)
        for table in COLUMNS:
            self.run(self._triggers(table))

    def close(self) -> None:
        """Drop everything that ``open`` made."""
        if self._is_postgres:
            self.run("DROP SCHEMA public CASCADE; CREATE SCHEMA public;")
        else:
            self.database.script("DROP DATABASE shop;")

    def run(self, text: str, *, to_the_end: bool = False) -> list[str]:
        """Run statements in one session; ``to_the_end`` goes on after one that fails."""
        return self.database.script(
            text if self._is_postgres else f"USE shop;\n{text}", to_the_end=to_the_end
        )

    @property
    def name(self) -> str:
        """The name of its connector, which its topics begin with."""
        return "pg" if self._is_postgres else "maria"

    @property
    def schema(self) -> str:
        """What the database says before a table's name."""
        return "public" if self._is_postgres else "shop"

    @property
    def _is_postgres(self) -> bool:
        return isinstance(self.database, Postgres)

    # What is done between transactions.

    def add_email(self) -> None:
        """Give persons one more column."""
        self.columns[PERSON].append(EMAIL)
        self.run(f"ALTER TABLE {PERSON} ADD COLUMN {EMAIL} varchar(100);")
        if not self._is_postgres:
            self.run(self._triggers(PERSON))

    def empty(self, table: str) -> None:
        """Truncate a table; MariaDB has no trigger for that, so the same second is noted beside it."""
        emptied = f"TRUNCATE TABLE {table};"
        noted = f"INSERT INTO audit(at, name, op) VALUES (unix_timestamp(), '{table}', 'TRUNCATE');"
        stopped = "SET timestamp = unix_timestamp();"  # what the log says, and what is noted
        self.run(emptied if self._is_postgres else f"{stopped}{emptied}{noted}SET timestamp = DEFAULT;")

    def restock(self) -> None:
        """Print tickets of the stock again, by one statement."""
        self.run(f"INSERT INTO {TICKET} SELECT * FROM stock;")

    def _triggers(self, table: str) -> str:
        if self._is_postgres:
            return (
                f"CREATE TRIGGER noted AFTER INSERT OR UPDATE OR DELETE ON {table} "
                "FOR EACH ROW EXECUTE FUNCTION note();"
                f"CREATE TRIGGER emptied AFTER TRUNCATE ON {table} EXECUTE FUNCTION note();"
            )
        names = self.columns[table]
        old, new = (
            f"json_object({', '.join(f'{n!r}, {part}.{n}' for n in names)})" for part in ("OLD", "NEW")
        )
        made = []
        for op, was, now in (("INSERT", "NULL", new), ("UPDATE", old, new), ("DELETE", old, "NULL")):
            # An update that changes nothing is in no log of MariaDB, though its trigger runs.
            begin, end = (f"IF {old} <> {new} THEN", "END IF;") if op == "UPDATE" else ("", "")
            made.append(f"""
                CREATE OR REPLACE TRIGGER {table}_{op} AFTER {op} ON {table} FOR EACH ROW BEGIN
                {begin} INSERT INTO audit(at, name, op, was, now)
                VALUES (unix_timestamp(), '{table}', '{op}', {was}, {now}); {end} END //""")
        return "DELIMITER //\n" + "\n".join(made) + "\nDELIMITER ;"

    # What the database holds, and what it wrote down.

    def held(self, table: str) -> list[Row]:
        """The rows of a table."""
        return [
            self.row(table, json.loads(line))
            for line in self.run(f"SELECT {self._json(table)} FROM {table};")
        ]

    def _json(self, table: str) -> str:
        if self._is_postgres:
            return f"to_jsonb({table})"
        return f"json_object({', '.join(f'{n!r}, {n}' for n in self.columns[table])})"

    def audit(self, table: str) -> list[Noted]:
        """What was written down about a table, in the order in which it happened."""
        if self._is_postgres:
            listed = "json_build_array(op, was, now, extract(epoch FROM pg_xact_commit_timestamp(tx::xid)))"
        else:
            listed = "json_array(op, json_compact(was), json_compact(now), at)"
        lines = self.run(f"SELECT {listed} FROM audit WHERE name = '{table}' ORDER BY seq;")
        found = []
        for line in lines:
            op, was, now, at = json.loads(line, parse_float=Decimal)
            was, now = (json.loads(x) if isinstance(x, str) else x for x in (was, now))
            seconds, micros = divmod(int(at * 1_000_000), 1_000_000)
            moment = datetime.fromtimestamp(seconds, UTC).replace(microsecond=micros)
            found.append(Noted(op, self.row(table, was), self.row(table, now), moment))
        return found

    def forget_audit(self) -> None:
        """Delete what was written down so far."""
        self.run("DELETE FROM audit;")

    def row(self, table: str, values: dict[str, Any] | None) -> Row | None:
        """A row by the columns that the table has in the end: so rows of all origins can be compared."""
        if values is None:
            return None
        kinds = COLUMNS[table] | ({EMAIL: "text"} if table == PERSON else {})
        return tuple(_value(values.get(name), kind) for name, kind in kinds.items())

    def key(self, table: str, row: Row) -> Row:
        """The key of a row."""
        return row[: len(KEYS[table])]


def _value(value: Any, kind: str) -> Any:
    if value is None or kind == "text":
        return value
    if kind == "time":
        return value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return Decimal(str(value))


def _inserted(table: str, wanted: int) -> str:
    """INSERT statements with the first rows of the bundled full load of a table."""
    path = DATA / f"01_raw/dms_sample/{table}/LOAD00000001.parquet"
    rows = pq.read_table(path, columns=list(COLUMNS[table])).slice(0, wanted).to_pylist()
    literals = [
        "("
        + ", ".join("NULL" if v is None else f"'{v}'" if isinstance(v, str) else str(v) for v in r.values())
        + ")"
        for r in rows
    ]
    parts = (literals[start : start + 1000] for start in range(0, len(literals), 1000))
    return "\n".join(f"INSERT INTO {table} VALUES {', '.join(part)};" for part in parts)


def transactions(rng: random.Random, office: TicketOffice, total: int, begin: int) -> Iterator[str]:
    """Random transactions of one to three things that happen in a ticket office; some are rolled back.

    They have the numbers from ``begin`` on, from which keys are made.
    """
    for number in range(begin, begin + total):
        body = [_step(rng, office, 10_000_000 + number * 10 + n) for n in range(rng.randint(1, 3))]
        end = "ROLLBACK" if rng.random() < 0.1 else "COMMIT"
        yield f"BEGIN; {' '.join(body)} {end};"


def _step(rng: random.Random, office: TicketOffice, new: int) -> str:
    """One thing that happens, at random persons and tickets; ``new`` is a number that nothing has yet."""
    # Most of it happens to few tickets, so that sold ones are renumbered, returned and sold again.
    last = office.tickets if rng.random() < 0.1 else min(office.tickets, 60)
    person, ticket = rng.randint(1, office.people), rng.randrange(1, last * 10, 10)
    some, price = rng.randint(1, 4), rng.randint(100, 9999) / 100
    printed = f"INSERT INTO {TICKET} VALUES ({new}, 8701, 42, 1, 'box', 'A', '{new % 97}', NULL, {price});"
    voided = f"DELETE FROM {TICKET} WHERE id = "
    steps = [
        [f"CALL sellRandomTickets({person}, {ticket}, {some});"],
        [f"CALL transferTicket({ticket}, {person}, {some});"],
        [f"CALL generateTicketActivity({person}, {ticket}, {some});"],
        [
            f"UPDATE {TICKET} SET ticketholder_id = NULL WHERE id = {ticket};",
            f"DELETE FROM {SALE} WHERE sporting_event_ticket_id = {ticket};",
        ],
        [
            f"UPDATE {TICKET} SET ticket_price = ticket_price + 1",
            f"WHERE id BETWEEN {ticket} AND {ticket + some * 20};",
        ],
        [printed],
        [f"{voided} {ticket};"],
        [
            f"UPDATE {TICKET} SET id = {new} WHERE id = {ticket};",
            f"UPDATE {SALE} SET sporting_event_ticket_id = {new} WHERE sporting_event_ticket_id = {ticket};",
        ],
        # One key is inserted, updated, deleted and inserted again in one transaction.
        [printed, f"UPDATE {TICKET} SET seat_row = 'B' WHERE id = {new};", f"{voided} {new};", printed],
        [_step_of_person(rng, office, person, new)],
    ]
    return " ".join(rng.choice(steps))


def _step_of_person(rng: random.Random, office: TicketOffice, person: int, new: int) -> str:
    steps = [
        f"INSERT INTO person(id, full_name, last_name, first_name) VALUES ({new}, 'Zoë Ř', 'Ř', 'Zoë');",
        f"UPDATE person SET full_name = concat(first_name, {new}), last_name = '{new}' WHERE id = {person};",
        f"DELETE FROM person WHERE id = {person};",
        f"UPDATE person SET id = {new} WHERE id = {person};",
    ]
    if EMAIL in office.columns[PERSON]:
        some = f"{person} AND {person + 3}"
        steps.append(f"UPDATE person SET email = 'p{new}@example.com' WHERE id BETWEEN {some};")
    return rng.choice(steps)


# What the audit expects of tables that follow the database: a plain model.


def expected_events(
    office: TicketOffice, table: str, first: Iterable[Row], audit: Iterable[Noted]
) -> Counter[Row]:
    """The events of a change log: (operation, row or key); a changed key is a delete and an upsert."""
    found: Counter[Row] = Counter(("upsert", row) for row in first)
    for noted in audit:
        if noted.op == "TRUNCATE":
            found["truncate", None] += 1
        moved = noted.was and noted.now and office.key(table, noted.was) != office.key(table, noted.now)
        if noted.was and (moved or not noted.now):
            found["delete", office.key(table, noted.was)] += 1
        if noted.now:
            found["upsert", noted.now] += 1
    return found


def expected_history(
    office: TicketOffice, table: str, first: Iterable[Row], audit: Iterable[Noted]
) -> Counter[Row]:
    """The versions of all rows: (row, from, to); the first rows have no time, and open ones no end."""
    alive: dict[Row, tuple[Row, datetime | None]] = {office.key(table, row): (row, None) for row in first}
    found: Counter[Row] = Counter()

    def end(key: Row, at: datetime) -> None:
        row, since = alive.pop(key)
        found[row, since, at if since is None else max(since, at)] += 1

    for noted in audit:
        if noted.op == "TRUNCATE":
            for key in list(alive):
                end(key, noted.at)
        moved = noted.was and noted.now and office.key(table, noted.was) != office.key(table, noted.now)
        if noted.was and (moved or not noted.now):
            end(office.key(table, noted.was), noted.at)
        if noted.now:
            key = office.key(table, noted.now)
            if key in alive and alive[key][0] == noted.now:
                continue
            if key in alive:
                end(key, noted.at)
            alive[key] = (noted.now, noted.at)
    found.update((row, since, None) for row, since in alive.values())
    return found
