"""For which queries only touched keys are computed, and that the steps find these keys; without a JVM.

The plans are recorded (``harness/derived_queries.py``), the queries are run by DuckDB.
"""

from __future__ import annotations

import copy
import json
from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from harness.derived_queries import RECORDED, REFUSED, SCHEMAS, SHAPES, Inputs, answer
from harness.soak import soaking

from kedro_lakehouse.ingestion.query_shape import (
    CastTo,
    ComputedWholeError,
    QueryShape,
    Step,
    Value,
    shape_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

pytestmark = pytest.mark.unit

PLANS = json.loads(RECORDED.read_text(encoding="utf-8"))
TRANSACTIONS = 500 if soaking() else 10

Rows = list[dict[str, Any]]


def shape(name: str) -> QueryShape:
    return shape_of(PLANS[name], list(SCHEMAS), SHAPES[name][0])


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_proven_is_computed_whole_and_the_reason_is_told(name: str) -> None:
    with pytest.raises(ComputedWholeError) as why:
        shape_of(PLANS[name], list(SCHEMAS), ["id"])
    assert REFUSED[name][1] in str(why.value)


def test_a_changed_row_is_followed_along_the_equalities_of_its_joins() -> None:
    found = shape("summary")
    assert found.occurrences == ["c", "s", "o"]
    site = CastTo("double", fails=True)
    assert found.joined_with(2) == [
        Step(Value(2, "s_id"), Value(1, "id", (site,))),
        Step(Value(1, "c_id"), Value(0, "id")),
    ]
    assert found.needed_for_keys() == (
        {0: {"id": Value(0, "id")}},
        [Step(Value(0, "id"), Value(1, "c_id")), Step(Value(1, "id", (site,)), Value(2, "s_id"))],
    )


def test_the_right_side_of_a_left_join_is_not_cut_by_a_key_of_its_own() -> None:
    assert shape("by_city").needed_for_keys() == ({}, [])
    assert shape("by_city").optional == {1}


def test_from_a_row_that_may_be_missing_nothing_is_followed_back() -> None:
    # A customer's order may be missing, so its row says nothing about the site of a changed customer.
    found = shape("grown")
    assert found.optional == {1, 2}
    assert [step.into.occurrence for step in found.joined_with(0)] == [1, 2]
    assert [step.into.occurrence for step in found.joined_with(2)] == [1, 0]


def test_an_unequal_join_is_not_followed() -> None:
    assert shape("unequal").joined_with(1) == []


def test_a_computed_key_comes_from_no_column() -> None:
    assert shape("names").keys == {"name": None}


@pytest.mark.parametrize("name", SHAPES)
def test_only_touched_keys_change_and_their_rows_are_found(name: str) -> None:
    keys, sql = SHAPES[name]
    found, inputs = shape(name), Inputs(seed=sorted(SHAPES).index(name))
    seen: Counter[str] = Counter()
    now = inputs.tables()
    result = answer(now, sql)
    for number in range(TRANSACTIONS):
        before, was = copy.copy(now), result
        changed = inputs.change()
        now = inputs.tables()
        result = answer(now, sql)
        touched = {
            key
            for alias, rows in changed.items()
            for start in found.of_input(alias)
            for key in _touched(found, start, set(rows), (before, now), keys, sql)
        }
        assert _of(was, keys, touched, others=True) == _of(result, keys, touched, others=True), (
            number,
            changed,
        )
        again = _of(_cut(found, touched, now, keys, sql), keys, touched)
        assert again == _of(result, keys, touched), (number, changed)
        seen["changed"] += was != result
        seen["spared"] += bool(_of(result, keys, touched, others=True))
    # Else the assertions above would say nothing.
    assert seen["changed"] >= TRANSACTIONS / 10
    assert name == "unequal" or seen["spared"] >= TRANSACTIONS / 10


def _of(
    rows: Rows, keys: list[str], touched: set[tuple[Any, ...]], *, others: bool = False
) -> Counter[tuple[Any, ...]]:
    """The rows of the touched keys, or of all others, each with its number."""
    return Counter(
        tuple(row.values()) for row in rows if (tuple(row[key] for key in keys) in touched) != others
    )


def _touched(
    found: QueryShape,
    start: int,
    changed: set[int],
    states: tuple[Mapping[str, pa.Table], Mapping[str, pa.Table]],
    keys: list[str],
    sql: str,
) -> Iterable[tuple[Any, ...]]:
    """The keys of the query over the changed rows of one occurrence and what they join, in each state."""
    alias = found.occurrences[start]
    parts = [{start: _where(state[alias], "id", changed)} for state in states]
    for step in found.joined_with(start):
        _follow(found, step, parts, states)
    return {
        tuple(row[key] for key in keys)
        for part, state in zip(parts, states, strict=True)
        for row in answer(_supplies(found, part, state), sql)
    }


def _cut(
    found: QueryShape, touched: set[tuple[Any, ...]], state: Mapping[str, pa.Table], keys: list[str], sql: str
) -> Rows:
    """The query over the rows that have the touched keys, and what joins with them."""
    holders, steps = found.needed_for_keys()
    part: dict[int, Rows] = {}
    for occurrence, held in holders.items():
        rows = state[found.occurrences[occurrence]].to_pylist()
        wanted = {tuple(key[keys.index(name)] for name in held) for key in touched}
        part[occurrence] = [r for r in rows if tuple(r[v.column] for v in held.values()) in wanted]
    for step in steps:
        _follow(found, step, [part], (state,))
    return answer(_supplies(found, part, state), sql)


def _follow(
    found: QueryShape, step: Step, parts: list[dict[int, Rows]], states: Iterable[Mapping[str, pa.Table]]
) -> None:
    values = {row[step.source.column] for part in parts for row in part[step.source.occurrence]} - {None}
    for part, state in zip(parts, states, strict=True):
        into = step.into.occurrence
        part[into] = _where(state[found.occurrences[into]], step.into.column, values)


def _where(table: pa.Table, name: str, values: set[Any]) -> Rows:
    return [row for row in table.to_pylist() if row[name] in values]


def _supplies(
    found: QueryShape, part: Mapping[int, Rows], state: Mapping[str, pa.Table]
) -> dict[str, pa.Table]:
    given = {}
    for alias, schema in SCHEMAS.items():
        numbers = found.of_input(alias)
        whole = not set(numbers) <= part.keys()
        rows = state[alias].to_pylist() if whole else [r for n in numbers for r in part[n]]
        given[alias] = pa.Table.from_pylist(list({row["id"]: row for row in rows}.values()), schema)
    return given
