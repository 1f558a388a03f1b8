"""Random transactions of several people in a database: short and long, committed late, or rolled back."""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Any, Final, Self

from harness.pulled import run

if TYPE_CHECKING:
    from harness.pulled import Shop

WHOLE, MARKED = "whole", "marked"
"""Rows of the first table are deleted, or get other keys; those of the second are marked as gone instead."""
SHARED: Final = 5
"""So many rows are changed by everybody."""
_TABLE: Final = (
    "CREATE TABLE {name} (id int PRIMARY KEY, name text NOT NULL, amount decimal(12,2), gone int NOT NULL, "
    "updated_at {time} NOT NULL{default});"
)
_PAUSES: Final = (0.0, 0.01, 0.1, 0.5, 1.5)
_OFTEN: Final = (50, 20, 15, 10, 5)


class Transactions:
    """So many transactions in the tables ``whole`` and ``marked``, by people who work at the same time.

    Each inserts, changes, moves to another key or removes rows of its own, and changes at most one row of all
    before anything else: who waits for a row holds nothing that others wait for.
    """

    def __init__(self, shop: Shop, total: int, *, people: int = 8, seed: int = 1) -> None:
        """Make the tables, with the rows of all."""
        self._shop, self._people, self._seed = shop, people, seed
        self._total = total
        self._failed: list[Exception] = []
        self.rolled_back = 0
        default = "" if shop.is_postgres else " DEFAULT now(6)"
        rows = ", ".join(f"({number}, 'shared', {number}, 0, {shop.now})" for number in range(SHARED))
        for name in (WHOLE, MARKED):
            shop.script(f"DROP TABLE IF EXISTS {name};")
            shop.script(_TABLE.format(name=name, time=shop.time, default=default))
            shop.script(f"INSERT INTO {name} VALUES {rows};")

    def __enter__(self) -> Self:
        connections = [self._shop.connect() for _ in range(self._people)]
        self._threads = [
            threading.Thread(target=self._work, args=(number, connection))
            for number, connection in enumerate(connections, 1)
        ]
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for thread in self._threads:
            thread.join()
        assert not self._failed, self._failed

    @property
    def is_working(self) -> bool:
        """Whether anybody still works."""
        return any(thread.is_alive() for thread in self._threads)

    def rows(self, table: str) -> set[tuple[str, ...]]:
        """The rows in the database, as texts: key, name, amount, gone, and the time of the change in UTC."""
        at = (
            "to_char(updated_at AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI:SS.US')"
            if self._shop.is_postgres
            else "date_format(updated_at, '%Y-%m-%d %H:%i:%s.%f')"
        )
        found = self._shop.script(f"SELECT concat_ws('|', id, name, amount, gone, {at}) FROM {table};")
        return {tuple(line.split("|")) for line in found}

    def _work(self, person: int, connection: Any) -> None:
        rng = random.Random(self._seed * 1_000 + person)  # noqa: S311 - a test's
        own: list[int] = []
        newest = person * 1_000_000
        try:
            for _ in range(self._total // self._people):
                run(connection, "BEGIN")
                held = list(own)
                if rng.random() < 0.2:
                    self._change(connection, rng, rng.randrange(SHARED))
                for _ in range(rng.randint(1, 4)):
                    newest += 1
                    self._step(connection, rng, held, newest)
                time.sleep(rng.choices(_PAUSES, _OFTEN)[0])
                if rng.random() < 0.1:
                    run(connection, "ROLLBACK")
                    self.rolled_back += 1
                else:
                    run(connection, "COMMIT")
                    own = held
        except Exception as error:  # noqa: BLE001 - the test tells it
            self._failed.append(error)
        finally:
            connection.close()

    def _step(self, connection: Any, rng: random.Random, held: list[int], newest: int) -> None:
        kind = rng.choice(["insert", "insert", "update", "update", "key", "remove"]) if held else "insert"
        if kind == "insert":
            self._insert(connection, rng, newest, (WHOLE, MARKED))
            held.append(newest)
        elif kind == "update":
            self._change(connection, rng, rng.choice(held))
        else:
            old = held.pop(rng.randrange(len(held)))
            run(connection, f"UPDATE {MARKED} SET gone = 1, updated_at = {self._shop.now} WHERE id = {old}")
            if kind == "remove":
                run(connection, f"DELETE FROM {WHOLE} WHERE id = {old}")
                return
            moved = f"UPDATE {WHOLE} SET id = {newest}, updated_at = {self._shop.now} WHERE id = {old}"
            run(connection, moved)
            self._insert(connection, rng, newest, (MARKED,))
            held.append(newest)

    def _insert(self, connection: Any, rng: random.Random, number: int, tables: tuple[str, ...]) -> None:
        values = f"({number}, 'n{rng.random():.9f}', {rng.randint(-999, 999)}.{rng.randint(10, 99)}, 0"
        for table in tables:
            run(connection, f"INSERT INTO {table} VALUES {values}, {self._shop.now})")

    def _change(self, connection: Any, rng: random.Random, number: int) -> None:
        name = f"n{rng.random():.9f}"
        for table in (WHOLE, MARKED):
            run(
                connection,
                f"UPDATE {table} SET name = '{name}', amount = amount + 0.01, updated_at = {self._shop.now} "
                f"WHERE id = {number}",
            )


def as_texts(rows: list[dict[str, Any]]) -> set[tuple[str, ...]]:
    """The rows of a table, as ``Transactions.rows`` has them."""
    return {
        (str(r["id"]), r["name"], str(r["amount"]), str(r["gone"]), f"{r['updated_at']:%Y-%m-%d %H:%M:%S.%f}")
        for r in rows
    }
