"""Profiles: the same from any batches, right in their counts, and silent about personal data."""

import datetime as dt
import json
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest

from kedro_lakehouse.column_search.profile import profile_column, profile_table
from kedro_lakehouse.column_search.sketch import SKETCH_SIZE, ColumnSketch, hashes_of, sketch_batches

pytestmark = pytest.mark.unit


def profile(values, *, name="x", table="t", personal=None, kind=None):
    return profile_column(name, ColumnSketch.of(pa.array(values, kind)), table=table, personal=personal)


def test_counts_of_a_small_column_are_exact():
    found = profile(["b", "a", "b", None, "", "  ", "----", "A", "b"])
    assert (found.kind, found.rows, found.nulls, found.distinct) == ("text", 9, 4, 2)
    assert found.frequent == (("b", 3), ("A", 2))
    assert found.null_fraction == pytest.approx(4 / 9)


@pytest.mark.parametrize(
    ("values", "kind", "least", "greatest"),
    [
        ([3, 1, 20], "integer", "1", "20"),
        ([2.5, float("nan"), 10.0], "decimal", "2.5", "10"),
        ([Decimal("1.50"), Decimal("-2.00")], "decimal", "-2", "1.5"),
        ([dt.date(2024, 2, 1), dt.date(2023, 1, 1)], "date", "2023-01-01", "2024-02-01"),
        (["9", "10", "x"], "text", None, None),
        (["9", "10", "11"], "integer", "9", "11"),
        ([True, None], "boolean", None, None),
        ([b"\xff"], "binary", None, None),
        ([{"a": 1}], "nested", None, None),
        ([None, None], "empty", None, None),
    ],
)
def test_every_type_has_a_profile(values, kind, least, greatest):
    found = profile(values)
    assert (found.kind, found.minimum, found.maximum) == (kind, least, greatest)
    assert found.rows == len(values)


def test_batches_add_up_to_the_whole():
    chance = np.random.default_rng(1)
    values = [f"v{n}" for n in chance.zipf(1.3, 20_000) % 3000]
    whole = ColumnSketch.of(pa.array(values))
    parts = sketch_batches(pa.table({"x": values[at : at + 1500]}) for at in range(0, 20_000, 1500))["x"]
    again = ColumnSketch.from_plain(json.loads(json.dumps(parts.to_plain())))
    assert again.sample == whole.sample
    assert (again.rows, again.nulls, again.distinct) == (whole.rows, whole.nulls, whole.distinct)
    for text, count in list(again.heavy.items())[:3]:
        assert whole.heavy[text] - len(values) / SKETCH_SIZE <= count <= whole.heavy[text]


def test_the_estimate_of_distinct_values_is_near():
    found = profile([f"value {n}" for n in range(20_000)])
    assert found.distinct == pytest.approx(20_000, rel=0.2)
    assert len(found.sketch) == SKETCH_SIZE
    assert list(found.sketch) == sorted(found.sketch)


def test_upper_and_lower_case_are_one_value():
    assert list(hashes_of(["Straße", "Rams"])) == list(hashes_of(["STRASSE", "RAMS"]))
    assert profile(["Yes", "YES", "yes"]).distinct == 1


def test_quantiles_weigh_every_row():
    found = profile([1] * 90 + list(range(100, 110)))
    assert found.quantiles[:4] == (1, 1, 1, 1)
    assert found.quantiles[4] == 104


@pytest.mark.parametrize("declared", [True, None])
def test_nothing_of_personal_values_is_kept_but_formats(declared):
    secrets = ["ann.canary@mail.org", "bob.canary@mail.org"]
    found = profile(secrets, name="contact", personal=declared)
    assert found.personal
    assert found.formats == (("a.a@a.a", 1.0),)
    assert found.distinct == 2
    kept = (found.frequent, found.spread, found.sketch, found.tokens, found.quantiles, found.minimum)
    assert kept == ((), (), (), (), (), None)
    assert "canary" not in repr(found)


def test_declared_columns_are_personal_in_any_case():
    found = profile_table(sketch_batches([pa.table({"Nick": ["a"], "team": ["b"]})]), table="t",
                          personal=frozenset({"nick"}))  # fmt: skip
    assert [one.personal for one in found] == [True, False]
