"""Conditions of a query choose a table's files only where every row of the answer meets them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import duckdb
import pytest

from kedro_lakehouse.query.parse import parse_query

if TYPE_CHECKING:
    from kedro_lakehouse.query.conditions import Comparison

pytestmark = pytest.mark.unit

CASES = {
    "select * from a.b x join a.c y on x.k = y.k where x.s = 'p' and y.n > 3": {
        "a.b": "s = p",
        "a.c": "n > 3",
    },
    "select * from a.b join a.c using (s) where s in ('p', 'q')": {"a.b": "s in p,q", "a.c": "s in p,q"},
    "select * from a.b x join a.c y on x.s = y.t and x.s = 'p'": {"a.b": "s = p", "a.c": "t = p"},
    "select * from a.b x, a.c y where x.s = y.t and y.t in (1, 2)": {"a.b": "s in 1,2", "a.c": "t in 1,2"},
    "with z as (select * from a.b x, a.c y where x.s = 'p') select * from z": {"a.b": "s = p"},
    "select * from a.b x left join a.c y on x.k = y.k where x.s = 'p'": {},
    "select * from a.b x left join a.c y on x.k = y.k and y.s = 'p'": {},
    "select * from a.b x join a.c y on x.k = y.k where x.s = 'p' or y.s = 'q'": {},
    "select * from a.b x join a.c y on x.k = y.k where not x.s = 'p'": {},
    "select * from a.b x join a.c y on x.k = y.k where x.s not in ('p')": {},
    "select * from a.b x join a.c y on x.k = y.k where s = 'p'": {},
    "select * from a.b x join a.b y on x.k = y.k where x.s = 'p'": {},
    "select * from a.b x join a.c y on x.k = y.k where x.s = 'p' union all select * from a.b": {"a.c": ""},
    "select * from a.b x join a.c y on x.k = y.k where x.s in ('p', null)": {},
    "select * from a.b x join a.c y on x.k = y.k where x.s = y.k": {},
    "select * from a.b x(s, k) join a.c y on x.k = y.k where x.s = 'p'": {},
    "select * from a.b x semi join a.c y on x.k = y.k where x.s = 'p'": {},
    "select * from a.b x join a.c y on x.k = y.k where x.s.p = 'p'": {},
}


def words(condition: Comparison) -> str:
    given = condition.constant
    constants = given if isinstance(given, tuple) else (given,)
    return f"{condition.column} {condition.operator} {','.join(map(str, constants))}"


@pytest.mark.parametrize("text", CASES)
def test_conditions_are_found_for_the_tables_that_they_are_about(text: str) -> None:
    with duckdb.connect() as connection:
        query = parse_query(text, connection, limit=None)
    found = {name: " and ".join(map(words, conditions)) for name, conditions in query.of_tables.items()}
    assert found == {table: said for table, said in CASES[text].items() if said}


def test_a_list_of_constants_chooses_rows_of_one_table() -> None:
    with duckdb.connect() as connection:
        query = parse_query("select * from a.b where s in ('p', 'q') and n in (1)", connection, limit=None)
    assert [(c.column, c.operator, c.constant) for c in query.filters] == [
        ("s", "in", ("p", "q")),
        ("n", "in", (1,)),
    ]
