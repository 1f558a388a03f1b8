"""Groups of columns on the map: what is alike is together, and the words of names say what it is."""

import numpy as np
import pytest

from kedro_lakehouse.column_search.embedders.base import unit_rows
from kedro_lakehouse.column_search.groups import MOST_GROUPS, groups_of
from kedro_lakehouse.console.map_page import COLOURS

pytestmark = pytest.mark.unit


def test_vectors_around_three_directions_are_three_groups_with_the_words_of_their_names():
    sizes, names = (40, 24, 12), ("cust_addr", "OrderDate", "unit_price")
    chance, kinds = np.random.default_rng(3), np.repeat(range(3), sizes)
    around = np.eye(16)[kinds * 5] + chance.normal(0, 0.05, (sum(sizes), 16))
    vectors = unit_rows(around.astype(np.float32))
    columns = [f"{names[kind]}_{place}" for place, kind in enumerate(kinds)]
    shuffled = chance.permutation(len(kinds))
    found = groups_of(vectors[shuffled], [columns[row] for row in shuffled])
    # More groups than directions are asked for: none may hold columns of two.
    assert len(found.names) == max(found.numbers) + 1 == round(np.sqrt(sum(sizes)) / 2)
    for number, name in enumerate(found.names):
        (kind,) = set(kinds[shuffled][found.numbers == number])
        assert set(name.split(" (")[0].split(", ")) == [
            {"customer", "address"}, {"order", "date"}, {"unit", "price"}
        ][kind]  # fmt: skip
    assert len(set(found.names)) == len(found.names)
    counted = np.bincount(found.numbers)
    assert list(counted) == sorted(counted, reverse=True)


def test_the_same_vectors_are_the_same_groups():
    vectors = unit_rows(np.random.default_rng(4).normal(size=(300, 12)).astype(np.float32))
    once, again = (groups_of(vectors, ["a_name"] * 300) for _ in range(2))
    assert np.array_equal(once.numbers, again.numbers)
    assert len(once.names) == round(np.sqrt(300) / 2)


@pytest.mark.parametrize("count", [0, 1, 2])
def test_few_columns_are_one_group(count):
    found = groups_of(np.eye(4, dtype=np.float32)[:count], ["7"] * count)
    assert list(found.numbers) == [0] * count
    assert list(found.names) == ["no words"] * min(count, 1)


def test_equal_vectors_are_one_group():
    found = groups_of(np.tile(np.eye(4, dtype=np.float32)[0], (100, 1)), ["zip"] * 100)
    assert set(found.numbers) == {0}
    assert list(found.names) == ["zip"]


def test_each_group_has_a_colour_that_stands_out_from_white():
    assert len(set(COLOURS)) == len(COLOURS) == MOST_GROUPS
    for colour in COLOURS:
        parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        luminance = sum(weight * p for weight, p in zip((0.2126, 0.7152, 0.0722), linear, strict=True))
        assert 1.05 / (luminance + 0.05) >= 3, colour
