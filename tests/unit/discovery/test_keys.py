"""Which of several unique columns is taken for the key, and where none is."""

from __future__ import annotations

import datetime as dt
from itertools import product

import pyarrow as pa
import pytest

from kedro_lakehouse.discovery.keys import find_keys

pytestmark = pytest.mark.unit

DAYS = [dt.date(2026, 1, 1) + dt.timedelta(days=n) for n in range(20)]


def chosen(rows, table="t"):
    return find_keys(pa.table(rows), table=table).chosen


@pytest.mark.parametrize(
    ("rows", "table", "key"),
    [
        ({"v": [3, 1, 2], "customer_id": [1, 2, 3]}, "order", ("customer_id",)),
        ({"faa": ["a", "b", "c"], "name": ["x", "y", "x"], "alt": [1, 2, 3]}, "airports", ("faa",)),
        ({"year": [2001, 2002, 2003], "volume": [7, 8, 9]}, "nile", ("year",)),
        ({"total": [7, 8, 9], "YEAR": [2001, 2002, 2003]}, "longley", ("YEAR",)),
        ({"date": DAYS, "low": list(range(20)), "high": list(range(20))}, "weather", ("date",)),
    ],
)
def test_one_column(rows, table, key):
    assert chosen(rows, table) == key


def test_several_columns():
    pairs = list(product(["a", "b", "c"], DAYS))
    rows = {"symbol": [s for s, _ in pairs], "on": [d for _, d in pairs], "price": list(range(len(pairs)))}
    assert chosen(rows) == ("symbol", "on")
    panel = list(product(range(1, 6), range(1950, 1960)))
    rows = {"firm": [f for f, _ in panel], "year": [y for _, y in panel], "capital": [3.5] * len(panel)}
    assert chosen(rows) == ("firm", "year")
    planned = {
        "Reaction": [n * 7 for n in range(50)],
        "Subject": [f for f, _ in panel],
        "Days": [y - 1950 for _, y in panel],
    }
    assert chosen(planned) == ("Subject", "Days")


def test_measurements_have_no_key():
    assert chosen({"length": [1.5, 2.5, 3.5, 4.5], "width": [0.5, 0.75, 0.25, 1.25]}) == ()
    assert chosen({"income": [100, 250, 310, 420], "spent": [80, 90, 70, 60]}) == ()
    rows = {
        "sex": ["m", "f", "m", "f", "m", "f"],
        "smoker": ["y", "n", "y", "y", "n", "n"],
        "tip": [2, 3, 1, 5, 4, 6],
    }
    assert chosen(rows) == ()


@pytest.mark.parametrize("name", ["row_name", "rownames", "Unnamed: 0", "index", "X", "obs"])
def test_a_number_that_counts_lines_is_no_key(name):
    assert chosen({name: list(range(1, 9)), "v": [1.5] * 8}) == ()
    assert chosen({name: [3, 1, 7, 5], "v": [1.5] * 4}) == ()
    assert chosen({"id": list(range(1, 9)), "v": [1.5] * 8}) == ("id",)


def test_every_candidate_has_its_reasons():
    found = find_keys(pa.table({"order_id": [1, 2, 3], "label": ["a", "b", "c"]}), table="order")
    assert len(found.why) == len(found.candidates) == 2
    assert "named like an id" in found.why[0]
    assert "the first column" in found.why[0]


def test_a_column_with_null_or_with_an_empty_text_is_no_key():
    assert chosen({"id": [1, None, 3]}) == ()
    assert chosen({"code": ["a", "", "c"]}) == ()


def test_what_is_unique_by_chance_is_no_key():
    rows = {"country": ["a", "b", "a", "b"], "income": [1250, 48_000, 310, 9_900]}
    assert chosen(rows, "health_income") == ()
    assert chosen({"cases": [7, 5, 9], "died": [1, 1, 2]}) == ()
    assert chosen({"first_name": ["Ann", "Bob", "Cid"], "age": [30, 31, 30]}) == ()
    answers = {"smokes_yes": [4, 4, 7], "smokes_no": [5, 8, 9]}
    assert chosen(answers) == ()
    assert chosen({"account_no": [5, 8, 9], "v": [1, 1, 1]}) == ("account_no",)


def test_a_time_that_grows_is_a_key_also_with_a_fraction():
    assert chosen({"time": [1920.0, 1920.083, 1920.167], "temp": [40.6, 40.8, 44.4]}) == ("time",)
    assert chosen({"time": [3.5, 1.25, 2.5], "temp": [40.6, 40.8, 44.4]}) == ()


def test_texts_of_every_type_are_counted():
    names = pa.array(["a", "b", "c"])
    for kind in (pa.string_view(), pa.large_string(), pa.dictionary(pa.int32(), pa.string())):
        assert chosen({"name": names.cast(kind), "v": [1, 1, 2]}) == ("name",)
