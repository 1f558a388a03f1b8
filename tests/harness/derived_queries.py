"""Queries of derived tables over three inputs, random changes of these, and the plans that Spark makes.

``PYTHONPATH=src:tests .venv/bin/python -m harness.derived_queries`` records the plans anew.
"""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

RECORDED = Path(__file__).parents[1] / "data/plans/derived.json"
SCHEMAS = {
    "c": pa.schema(
        [
            ("id", pa.int64()), ("name", pa.string()), ("boss", pa.int64()), ("main", pa.int64()),
            ("score", pa.int32()),
        ]
    ),
    "s": pa.schema([("id", pa.int64()), ("c_id", pa.int64()), ("city", pa.string())]),
    "o": pa.schema([("id", pa.int64()), ("s_id", pa.float64()), ("amount", pa.decimal128(9, 2))]),
}  # fmt: skip
SHAPES: dict[str, tuple[list[str], str]] = {
    "summary": (["id"], """
        select c.id, c.name, count(o.id) as orders, sum(o.amount) as total,
        min(o.amount) as lo, max(s.city) as hi
        from c join s on c.id = s.c_id join o on s.id = o.s_id group by c.id, c.name"""),
    "optional": (["id"], "select c.id, c.name, s.city from c left join s on c.main = s.id"),
    "chain": (["id"], """
        select o.id, o.amount, s.city, c.name from o left join s on o.s_id = s.id left join c on s.c_id = c.id
        where coalesce(c.score, 0) < 8"""),
    "by_city": (["city"], """
        select s.city, count(*) as n, sum(o.amount) as total from o left join s on o.s_id = s.id
        group by s.city"""),
    "bosses": (["id"], "select e.id, e.name, b.name as boss from c e left join c b on e.boss = b.id"),
    "staff": (["id"], """
        select b.id, count(*) as n, avg(e.score) as mean from c e join c b on e.boss = b.id group by b.id"""),
    "names": (["name"], """
        select upper(name) as name, count(*) as n from c where score > 3 group by upper(name)"""),
    "commas": (["order_id"], """
        select o.id as order_id, c.name from o, s, c
        where o.s_id = s.id and s.c_id = c.id and o.amount > 5"""),
    "coalesced": (["city"], """
        select coalesce(s.city, 'none') as city, sum(o.amount) as total from o left join s on o.s_id = s.id
        group by coalesce(s.city, 'none')"""),
    "two_keys": (["boss", "city"], """
        select c.boss, s.city, count(*) as n from c join s on c.id = s.c_id where c.boss is not null
        group by c.boss, s.city having s.city <> 'Oslo'"""),
    "doubled": (["id"], "select s.c_id as id, s.city from s"),
    "grown": (["id"], """
        select c.id, count(o.id) as n from c left join s on c.id = s.c_id and s.city <> 'Bern'
        left join o on s.id = o.s_id group by c.id"""),
    "unequal": (["id"], """
        select c.id, count(s.id) as n from c left join s on c.score > s.id group by c.id"""),
    "named": (["id"], """
        with big as (select s_id, amount from o where amount > 3), placed as (select id, city from s)
        select placed.id, sum(big.amount) as total from placed join big on placed.id = big.s_id
        group by placed.id"""),
    "required": (["id"], """
        select o.id, c.name from c left join s on c.id = s.c_id join o on o.s_id = s.id"""),
    "crossed": (["id"], """
        select s.id, count(*) as n, sum(o.amount) as total from c cross join s
        left join o on o.s_id = s.id and o.id = c.main group by s.id"""),
}  # fmt: skip
"""By name the keys and the text, which Spark and DuckDB understand alike; all are computed by keys."""
REFUSED: dict[str, tuple[str, str]] = {
    "window": ("select id, row_number() over (partition by c_id order by id) as n from s", "window function"),
    "distinct": ("select distinct id, city from s", "DISTINCT"),
    "union": ("select id, city from s union all select id, name from c", "UNION"),
    "except": ("select id from s except select id from c", "EXCEPT"),
    "limit": ("select id, city from s limit 3", "LIMIT"),
    "sorted": ("select id, city from s order by city", "ORDER BY"),
    "exploded": ("select id, explode(split(city, 'o')) as part from s", "explode"),
    "rollup": ("select id, city, count(*) as n from s group by rollup(id, city)", "grouping sets"),
    "scalar": ("select id, (select max(score) from c where c.id = s.c_id) as top from s", "subquery"),
    "in_query": ("select id, city from s where c_id in (select id from c)", "subquery"),
    "exists": ("select id from s where exists (select 1 from c where c.id = s.c_id)", "subquery"),
    "rand": ("select id, rand() as r from s", "uses Rand"),
    "today": ("select id, current_date() as d from s", "uses CurrentDate"),
    "guess": ("select id, city from s where uuid() > 'a'", "uses Uuid"),
    "first": ("select c_id as id, first(city) as city from s group by c_id", "aggregate First"),
    "listed": ("select c_id as id, collect_list(city) as all from s group by c_id", "aggregate CollectList"),
    "right": ("select s.id, c.name from c right join s on c.id = s.c_id", "inner nor left (RightOuter)"),
    "full": ("select s.id, c.name from c full join s on c.id = s.c_id", "neither inner nor left (FullOuter)"),
    "semi": ("select s.id from s left semi join c on c.id = s.c_id", "neither inner nor left (LeftSemi)"),
    "joined_group": (
        "select c.id, t.n from c join (select c_id, count(*) as n from s group by c_id) t on c.id = t.c_id",
        "joins what it has grouped",
    ),
    "bushy": (
        "select c.id, o.amount from c left join (s join o on s.id = o.s_id) on c.id = s.c_id",
        "right side of a join is itself a join",
    ),
    "having": ("select c_id as id, count(*) as n from s group by c_id having count(*) > 1", "HAVING"),
    "total": ("select count(*) as id from s", "without GROUP BY"),
    "counted": ("select count(*) as id, city from s group by city", "key id is made of several rows"),
    "nameless": ("select city from s", "no column id"),
    "twice": ("select n as id, count(*) as m from (select c_id, count(*) n from s group by c_id) group by n",
              "groups twice"),
}  # fmt: skip
"""By name the text, whose key would be ``id``, and a part of the reason why it is computed whole."""
CITIES = ["Lyon", "Oslo", "Bern", "Rome", None]

Row = dict[str, Any]


@dataclass
class Inputs:
    """The rows of the inputs, by key, as random transactions change them."""

    seed: int
    keys: int = 10
    rows: dict[str, dict[int, Row]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)  # noqa: S311 - the same in every run
        self.rows = {alias: {k: self._row(alias) for k in range(1, self.keys + 1)} for alias in SCHEMAS}

    def _row(self, alias: str) -> Row:
        pick = self.random

        def reference() -> int | None:
            return pick.choice([*range(1, self.keys + 3), None])

        if alias == "c":
            name = pick.choice(["ann", "Ann", "bob", "eve", None])
            return {"name": name, "boss": reference(), "main": reference(), "score": pick.randrange(10)}
        if alias == "s":
            return {"c_id": reference(), "city": pick.choice(CITIES)}
        site = reference()
        amount = Decimal(pick.randrange(2000)) / 100
        return {"s_id": None if site is None else float(site), "amount": amount}

    def change(self) -> dict[str, dict[int, Row | None]]:
        """A random transaction of one or several inputs: by input and key the new row, None for a delete."""
        changed: dict[str, dict[int, Row | None]] = {}
        for alias in self.random.sample(list(SCHEMAS), self.random.choice([1, 1, 2, 3])):
            rows = self.rows[alias]
            for key in self.random.sample(range(1, self.keys + 3), self.random.randint(1, 2)):
                goes = key in rows and self.random.random() < 0.4
                changed.setdefault(alias, {})[key] = None if goes else self._row(alias)
        for alias, found in changed.items():
            for key, row in found.items():
                if row is None:
                    del self.rows[alias][key]
                else:
                    self.rows[alias][key] = row
        return changed

    def tables(self) -> dict[str, pa.Table]:
        """The inputs as Arrow."""
        return {
            alias: pa.Table.from_pylist([{"id": k, **r} for k, r in self.rows[alias].items()], schema)
            for alias, schema in SCHEMAS.items()
        }


@cache
def _base() -> duckdb.DuckDBPyConnection:
    """One database: to open one takes longer than to answer."""
    return duckdb.connect(config={"threads": 1})


def answer(tables: Mapping[str, pa.Table], sql: str) -> list[Row]:
    """The whole result of a query, by DuckDB."""
    for alias, rows in tables.items():
        _base().register(alias, rows)
    found: list[Row] = _base().sql(sql).to_arrow_table().to_pylist()
    return found


def without(plan: Any) -> Any:
    """A plan without what nobody looks at: types of columns, qualifiers, metadata."""
    if isinstance(plan, list):
        return [without(part) for part in plan]
    if not isinstance(plan, dict):
        return plan
    kept = {
        "class", "num-children", "projectList", "aggregateExpressions", "groupingExpressions", "condition",
        "joinType", "object", "cteId", "id", "output", "identifier", "name", "exprId", "evalMode", "plan",
    }  # fmt: skip
    if str(plan.get("class", "")).endswith(".Cast"):
        kept.add("dataType")
    return {k: without(v) for k, v in plan.items() if k in kept}


def without_sources(plan: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A plan without what lies below the SELECTs of the inputs, which are its first definitions."""
    kept: list[dict[str, Any]] = []
    open_children = 0
    for node in plan:
        if open_children:
            open_children += int(node["num-children"]) - 1
            continue
        is_select = len(kept) > 1 and str(kept[-2]["class"]).endswith(".CTERelationDef")
        if is_select and kept[-1].get("identifier", {}).get("name") in SCHEMAS:
            open_children = int(node["num-children"])
            kept.append(node | {"num-children": 0})
        else:
            kept.append(node)
    return kept


def plan_of(session: SparkSession, sql: str) -> Any:
    """What Spark makes of a query over the inputs, below which nothing is kept."""
    from kedro_lakehouse.ingestion.derived import statement_over
    from kedro_lakehouse.session.plans import analysed_plan

    kinds = {pa.int64(): "bigint", pa.int32(): "int", pa.string(): "string", pa.float64(): "double"}
    inputs = {
        alias: "SELECT " + ", ".join(f.name for f in schema) + " FROM (SELECT "
        + ", ".join(f"CAST(NULL AS {kinds.get(f.type, 'decimal(9,2)')}) AS {f.name}" for f in schema) + ")"
        for alias, schema in SCHEMAS.items()
    }  # fmt: skip
    return without_sources(without(analysed_plan(session.sql(statement_over(inputs, sql)))))


def record() -> None:
    """Write down the plans of all queries."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.master("local[1]").config("spark.sql.ansi.enabled", "true").getOrCreate()
    texts = {name: sql for name, (_, sql) in SHAPES.items()} | {
        name: sql for name, (sql, _) in REFUSED.items()
    }
    plans = [f"{json.dumps(name)}:{json.dumps(plan_of(session, sql))}" for name, sql in texts.items()]
    RECORDED.write_text("{" + ",\n".join(plans) + "}\n", encoding="utf-8")


if __name__ == "__main__":
    record()
