"""What rows tell of keys, types and persons; the oracle is a plain search over Python's own rows."""

from __future__ import annotations

from itertools import combinations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kedro_lakehouse.column_search.personal import personal_evidence
from kedro_lakehouse.discovery.files import typed_texts
from kedro_lakehouse.discovery.keys import key_candidates

pytestmark = pytest.mark.unit

CELL = st.one_of(st.none(), st.integers(0, 3), st.integers(0, 3))
ROWS = st.lists(st.tuples(CELL, CELL, CELL), min_size=2, max_size=12)


def unique_without_null(rows, names, chosen):
    values = [tuple(row[names.index(n)] for n in chosen) for row in rows]
    return len(set(values)) == len(values) and not any(None in value for value in values)


@settings(deadline=None)
@given(ROWS)
def test_every_told_key_is_one_and_the_smallest_are_told(rows):
    names = ["a", "b", "c"]
    table = pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows], schema=SCHEMA)
    told = set(key_candidates(table, table="t"))
    keys = [
        set(c) for size in (1, 2, 3) for c in combinations(names, size) if unique_without_null(rows, names, c)
    ]
    assert all(set(one) in keys for one in told)
    assert bool(told) == bool(keys)
    smallest = {frozenset(k) for k in keys if len(k) == 1}
    assert smallest <= set(map(frozenset, told))


SCHEMA = pa.schema([(name, pa.int64()) for name in "abc"])


@pytest.mark.parametrize(
    ("columns", "table", "key"),
    [
        ({"name": ["x", "y"], "order_id": [1, 2]}, "shop.orders", ("order_id",)),
        ({"pupils": [5, 7], "school": ["a", "b"]}, "schools", ("school",)),
        ({"loan": [1, 2], "isbn": ["1", "2"]}, "library_loans", ("loan",)),
        ({"station": ["s", "s"], "on": ["1", "2"], "low": [3, 1], "high": [4, 4]}, "weather", ("on",)),
        ({"id": [1.0, 2.0], "ratio": [0.5, 0.75]}, "t", ("id",)),
    ],
)
def test_the_likeliest_key_comes_first(columns, table, key):
    assert key_candidates(pa.table(columns), table=table)[0] == key


def test_columns_that_are_unique_together_come_before_a_number_that_happens_to_be():
    rows = {"station": ["a", "a", "b", "b"], "day": ["1", "2", "1", "2"], "snow": [4, 7, 1, 3]}
    assert key_candidates(pa.table(rows), table="weather")[0] == ("station", "day")


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (["1", "-20", None], pa.int64()),
        (["1", "2.5", "1e3"], pa.float64()),
        (["007", "12"], pa.string()),
        (["123456789012345678901"], pa.string()),
        (["2026-01-31"], pa.date32()),
        (["2026-02-30"], pa.string()),
        (["2026-01-31T10:00:00Z"], pa.timestamp("us", "UTC")),
        (["2026-01-31 10:00:00"], pa.timestamp("us")),
        (["2026-01-31 10:00", "2026-01-31T10:00:01.5"], pa.timestamp("us")),
        (["2026-01-31T10:00:00Z", "2026-01-31T10:00:00"], pa.string()),
        (["true", "False"], pa.bool_()),
        (["", "1"], pa.string()),
        ([None, None], pa.string()),
    ],
)
def test_texts_have_the_type_that_each_of_them_stands_for(values, kind):
    assert typed_texts(pa.chunked_array([pa.array(values, pa.string())])).type == kind


@settings(deadline=None)
@given(st.lists(st.text(alphabet="0123456789.-", min_size=1, max_size=8), min_size=1, max_size=5))
def test_a_number_never_loses_a_digit_of_its_text(values):
    typed = typed_texts(pa.chunked_array([values]))
    if typed.type == pa.int64():
        assert [str(v) for v in typed.to_pylist()] == [
            v.replace("-0", "0") if v == "-0" else v for v in values
        ]


@pytest.mark.parametrize(
    ("name", "values", "told"),
    [
        ("contact", ["a@b.org", "c@d.org", "-"], "2 of 3 values are e-mail addresses"),
        ("n", ["4111 1111 1111 1111", "5500000000000004"], "2 of 2 values are card numbers"),
        ("n", ["4111 1111 1111 1112", "5500000000000005"], None),
        ("reach", ["+49 171 2345678", "(030) 123-4567"], "2 of 2 values are telephone numbers"),
        ("dob", [], "its name says so: date of birth"),
        ("amount", ["1", "2"], None),
    ],
)
def test_personal_columns_are_told_with_their_reason(name, values, told):
    assert personal_evidence(name, "t", values) == told
