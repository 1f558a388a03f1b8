"""A lake with people in it, and what roles may see of it: for tests of grants, without Spark."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from harness.catalogs import embedded_conf
from kedro_lakehouse.config.loading import load_declarations
from kedro_lakehouse.config.sources import DmsSourceConfig
from kedro_lakehouse.project import Project

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

TABLES: dict[str, Any] = {
    "shop.customer": {
        "source": "shop", "keys": ["id"], "history": {"view": {"name": "dim_customer"}},
        "personal": ["name"], "payment": ["card"], "column_tags": {"money": ["salary"], "open": ["region"]},
    },
    "shop.secret": {"source": "shop", "keys": ["id"], "history": True},
    "shop.staff": {"source": "shop", "keys": ["id"], "column_tags": {"open": ["desk"]}},
    "hr.person": {"source": "shop", "keys": ["id"]},
}  # fmt: skip
GRANTS: dict[str, Any] = {
    "analyst": [
        {"database": "hr", "can": "describe"},
        {
            "table": "shop.customer", "columns": {"exclude": ["email", "salary"]},
            "mask": {"phone": "last4", "born": "hide", "home": "hide"}, "rows": "region = 'EU'",
        },
        {"table": "shop.staff", "can": "describe"},
    ],
    "reader": [{"database": "shop"}],
    "support": [{"table": "shop.customer", "columns": {"include": ["id", "name"]}}],
    "auditor": [{"database": "shop"}, {"tag": "personal"}, {"tag": "payment"}],
    "counter": [{"tag": "open"}],
    "nobody": [],
}  # fmt: skip
_HOME = pa.struct({"street": pa.string(), "city": pa.string()})
_SCHEMA = pa.schema(
    {
        "id": pa.int64(), "email": pa.string(), "name": pa.string(), "phone": pa.string(), "card": pa.int64(),
        "born": pa.date32(), "salary": pa.int64(), "region": pa.string(), "note": pa.string(), "home": _HOME,
    }
)  # fmt: skip
_HISTORY = pa.schema(
    {field.name: field.type for field in _SCHEMA}
    | {
    "effective_from": pa.timestamp("us", tz="UTC"), "effective_to": pa.timestamp("us", tz="UTC"),
    "is_current": pa.bool_(), "_surrogate_key": pa.int64(), "_tombstone": pa.bool_(),
    }
)  # fmt: skip


@dataclass(frozen=True)
class Secrets:
    """The values that the analyst may not see, in one lake; another lake has others."""

    word: str
    number: int
    day: dt.date
    hidden_rows: int

    @property
    def canaries(self) -> tuple[str, ...]:
        """Texts that stand in no answer."""
        return (self.word, self.word.lower(), str(self.number), self.day.isoformat())


ONE = Secrets("CANARYONE", 771001177, dt.date(1911, 1, 11), 2)
OTHER = Secrets("SPARROWTWO", 882002288, dt.date(1922, 2, 22), 5)


def customers(secret: Secrets) -> list[dict[str, Any]]:
    """Two customers that the analyst sees, and some that he does not."""

    def hides(number: int) -> dict[str, Any]:
        word = f"{secret.word}-{number}"
        return {
            "email": f"{word}@mail.example", "name": word, "home": {"street": word, "city": word},
            "born": secret.day, "salary": secret.number + number,
        }  # fmt: skip

    seen = [
        {
            "id": number,
            "phone": f"+49 {secret.word} {number}",
            "card": secret.number * 10**4 + number,
            "region": "EU",
            "note": ["a", None][number - 1111],
        }
        for number in (1111, 1112)
    ]
    more = [
        {
            "id": 2000 + n, "phone": secret.word, "card": secret.number, "note": secret.word,
            "region": [f"{secret.word}-US", None][n % 2],
        }
        for n in range(secret.hidden_rows)
    ]  # fmt: skip
    return [row | hides(row["id"]) for row in seen + more]


def granted_project(
    folder: Path, secret: Secrets, grants: Mapping[str, Any] | None = None, only: str | None = None
) -> Project:
    """A project whose stored tables hold these customers, with history, change log, quarantine and ops.

    With ``only`` it has stored one table alone.
    """
    declared = load_declarations({"shop": {"type": "dms", "path": "x"}}, TABLES, {"dms": DmsSourceConfig})
    given = GRANTS if grants is None else dict(grants)
    project = Project(
        env="local", declarations=declared, spark_conf=embedded_conf(folder), lakehouse=str(folder),
        cache=str(folder), _grants=lambda: given,
    )  # fmt: skip
    rows = customers(secret)
    version = {
        "effective_from": dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "effective_to": None, "is_current": True,
        "_surrogate_key": secret.number, "_tombstone": False,
    }  # fmt: skip
    raw = [{"id": row["id"], "_raw": row["email"], "_reasons": [row["name"]]} for row in rows]
    staff = [{"id": 1, "name": secret.word, "desk": "north"}]
    stored: dict[str, pa.Table] = {
        "shop.customer": pa.Table.from_pylist(rows, _SCHEMA),
        "shop.customer_history": pa.Table.from_pylist([row | version for row in rows], _HISTORY),
        "shop.customer_changes": pa.Table.from_pylist(rows, _SCHEMA),
        "shop.customer_quarantine": pa.Table.from_pylist(raw),
        "shop.secret": pa.Table.from_pylist([{"id": 1, "word": secret.word}]),
        "shop.staff": pa.Table.from_pylist(staff),
        "hr.person": pa.Table.from_pylist([{"id": 1, "name": secret.word}]),
        "ops.runs": pa.Table.from_pylist([{"run_id": secret.word}]),
    }  # fmt: skip
    for name, table in stored.items() if only is None else [(only, stored[only])]:
        space = name.partition(".")[0]
        project.catalog.ensure_namespace(space)
        project.catalog.catalog.create_table(name, schema=table.schema).append(table)
    return project
