"""Whatever a role asks is answered as DuckDB answers it on the granted rows alone, made by plain Python."""

from __future__ import annotations

import random
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from harness.granted import ONE, customers, granted_project
from harness.soak import soaking

from kedro_lakehouse.grants.access import RoleAccess
from kedro_lakehouse.query.answer import run_query

pytestmark = pytest.mark.unit

QUERIES = 3000 if soaking() else 40
WORDS = ("EU", "US", "a", ONE.word, f"{ONE.word}-1111", "****", "****1111", f"+49 {ONE.word} 1111")
NUMBERS = (1, 1111, 1112, 2000, ONE.number, ONE.number * 10**4 + 1111)
GRANTS: dict[str, Any] = {
    "one": [{
        "table": "shop.customer", "columns": {"include": ["id", "name", "phone", "card", "region", "note"]},
        "mask": {"phone": "last4", "note": "redact"}, "rows": "region = 'EU' or id = 2001",
    }],
}  # fmt: skip


def granted() -> pa.Table:
    """What the role sees, by the words of the grant."""

    def last4(value: object) -> str:
        text = str(value)
        return f"****{text[-4:]}" if len(text) >= 8 else "****"

    rows = [
        {
            "id": row["id"], "name": "****", "phone": last4(row["phone"]), "card": last4(row["card"]),
            "region": row["region"], "note": None if row["note"] is None else "****",
        }
        for row in customers(ONE) if row["region"] == "EU" or row["id"] == 2001
    ]  # fmt: skip
    return pa.Table.from_pylist(rows)


def query(chance: random.Random) -> str:
    """A query of the table: conditions, aggregates, orders and limits in any mixture."""

    def condition() -> str:
        column = chance.choice(["id", "name", "phone", "card", "region", "note"])
        operator = chance.choice(["=", "<", "<=", ">", ">=", "<>", "like", "is null", "is not null", "in"])
        value = str(chance.choice(NUMBERS)) if column == "id" else f"'{chance.choice([*WORDS, *NUMBERS])}'"
        if operator.startswith("is"):
            return f"{column} {operator}"
        if operator == "like":
            return f"{column}::varchar like '{chance.choice(WORDS)[:3]}%'"
        return f"{column} {operator} ({value})" if operator == "in" else f"{column} {operator} {value}"

    parts = [condition() for _ in range(chance.randrange(4))]
    where = f" where {chance.choice([' and ', ' or ']).join(parts)}" if parts else ""
    picked = chance.choice(
        ["*", "id", "phone, id", "name, card, region, note", "max(card), count(note), count(*)"]
    )
    order = chance.choice(["", " order by all", " order by all limit 1"])
    return f"select {picked} from shop.customer{where}{order}"


def test_answers_are_those_on_the_granted_rows(tmp_path: Any) -> None:
    lake = granted_project(tmp_path, ONE, GRANTS, "shop.customer")
    role, chance = RoleAccess.of(lake, "one"), random.Random(7)  # noqa: S311 - the same each time
    with duckdb.connect() as plain:
        plain.register("granted", granted())
        plain.execute("create schema shop; create view shop.customer as from granted")
        answered = 0
        for _ in range(QUERIES):
            text = query(chance)
            expected = plain.execute(text).fetchall()
            found = run_query(lake.catalog, text, role=role).rows
            assert sorted(map(str, found)) == sorted(map(str, expected)), text
            answered += bool(expected)
    assert answered > QUERIES / 4
