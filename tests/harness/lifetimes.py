"""Random sales whose rows grow old, and what a plain model says of them."""

from __future__ import annotations

import datetime as dt
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.project import FORMAT, TemporaryProject, write_text

if TYPE_CHECKING:
    from pathlib import Path

SOURCES: dict[str, Any] = {
    "shop": {
        "type": "changes", "path": "${globals:landing}/shop", "pattern": "*.csv", "file_format": "csv",
        "op_column": "op",
    },
    "web": {"type": "changes", "path": "${globals:landing}/web", "pattern": "*.csv", "file_format": "csv"},
}  # fmt: skip
SALE = {
    "source": "shop", "entity": "sale", "keys": ["id"], "order_by": ["n"], "ignore_null": ["note"],
    "types": {"id": "bigint", "n": "int", "ts": "timestamp_ntz"},
}  # fmt: skip
TEN_DAYS = {"after": "10 days", "column": "ts"}
TABLES: dict[str, Any] = {
    "shop.sale": SALE | {"retention": TEN_DAYS},
    "shop.lately": SALE | {
        "retention": TEN_DAYS | {"to": "delete"}, "types": {"id": "bigint", "n": "int", "ts": "date"},
    },
    "web.click": {
        "source": "web", "write": "append", "retention": TEN_DAYS,
        "types": {"id": "bigint", "ts": "timestamp_ntz"},
    },
}  # fmt: skip
START = dt.datetime(2026, 3, 1)  # noqa: DTZ001 - zone-less, as the files have it


@dataclass(frozen=True)
class Sale:
    """One event: the operation, the key, a note that may be left out, the order, and the day of the sale."""

    op: str
    id: int
    note: str
    n: int
    day: int | None

    @property
    def line(self) -> str:
        return f"{self.op},{self.id},{self.note},{self.n},{'' if self.day is None else time_of(self.day)}"


def time_of(day: int) -> dt.datetime:
    return START + dt.timedelta(days=day)


def at(day: int) -> dt.datetime:
    """A clock: some hour of a day."""
    return time_of(day).replace(hour=7, tzinfo=dt.UTC)


def limit(day: int) -> dt.datetime:
    """Before this, rows are old on a day."""
    return time_of(day - 10)


@dataclass
class Shop:
    """A lake whose rows grow old, and all that happened in it."""

    project: TemporaryProject
    chance: random.Random
    sales: list[Sale] = field(default_factory=list)
    clicks: list[tuple[int, int]] = field(default_factory=list)
    files: int = 0

    @classmethod
    def make(cls, folder: Path, seed: int, table_format: str = FORMAT) -> Shop:
        project = TemporaryProject.make(folder, SOURCES, TABLES, table_format=table_format)
        return cls(project, random.Random(seed))  # noqa: S311 - reproducible

    def land(self, day: int, *, events: int = 14) -> None:
        """Land what happened lately, and some late and repeated events."""
        chance = self.chance
        sales = [self._sale(day) for _ in range(events)]
        # Of two events of a key and an order the declaration may let either win: there are none here.
        known = {(one.id, one.n) for one in self.sales}
        fresh = {(one.id, one.n): one for one in sales if (one.id, one.n) not in known}
        again = chance.sample(self.sales, min(2, len(self.sales)))
        self.sales += fresh.values()
        clicks = [(chance.randint(1, 9), day - chance.choice([0, 5, 12, 40])) for _ in range(6)]
        self.clicks += clicks
        self.files += 1
        lines = [one.line for one in (*fresh.values(), *again)]
        self._write("shop/sale", "op,id,note,n,ts", lines)
        self._write("web/click", "id,ts", [f"{i},{time_of(d)}" for i, d in clicks])

    def land_one_of_each_age(self, day: int) -> None:
        """Land a sale that is old already, and one of the day, of keys that no other event has."""
        made = [Sale("U", key, "a", 1, sold) for key, sold in ((17, day - 30), (18, day))]
        self.sales += made
        self.files += 1
        self._write("shop/sale", "op,id,note,n,ts", [one.line for one in made])

    def _sale(self, day: int) -> Sale:
        chance = self.chance
        key, order = chance.randint(1, 16), chance.randint(1, 8 * (self.files + 1))
        if chance.random() < 0.2:
            return Sale("D", key, "", order, None)
        sold = chance.choice([None, *[day - days for days in (0, 3, 8, 14, 20, 30)] * 2])
        return Sale("U", key, chance.choice(["a", "b", ""]), order, sold)

    def _write(self, folder: str, head: str, lines: list[str]) -> None:
        write_text(self.project.landing / folder / f"{self.files:03}.csv", "\n".join([head, *lines, ""]))

    def folded(self) -> dict[int, tuple[str | None, int, Any]]:
        """Of each sale that exists: its note, the order of its last event, and its time."""
        found: dict[int, tuple[str | None, int, Any]] = {}
        for one in sorted(self.sales, key=lambda s: s.n):
            if one.op == "D":
                found.pop(one.id, None)
                continue
            before = found.get(one.id)
            note = one.note or (before[0] if before else None)
            found[one.id] = (note, one.n, None if one.day is None else time_of(one.day))
        return found


def seen(rows: list[dict[str, Any]]) -> dict[int, tuple[str | None, int, Any]]:
    """Rows of a table as the model has them; no key may be there twice."""
    found = {row["id"]: (row["note"], row["n"], _plain(row["ts"])) for row in rows}
    assert len(found) == len(rows), "a key is there twice"
    return found


def _plain(moment: Any) -> Any:
    """A time without its zone, which some formats add: all are UTC."""
    return moment.replace(tzinfo=None) if isinstance(moment, dt.datetime) else moment
