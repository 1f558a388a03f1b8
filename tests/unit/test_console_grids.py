"""What the console's grids tell: estimates are told as such, and no cell is a None or a list."""

import pytest
from streamlit.testing.v1 import AppTest

from kedro_lakehouse.console.grids import distinct_told

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("distinct", "values", "told"),
    [
        (0, 0, "0"),
        (255, 9_000, "255"),
        (256, 9_000, "about 260"),
        (2_049, 2_230, "about 2,000"),
        (2_301, 2_230, "about 2,200"),
        (987_654, 1_000_000, "about 990,000"),
    ],
)
def test_a_number_that_was_not_counted_is_told_as_an_estimate(distinct, values, told):
    assert distinct_told(distinct, values=values) == told


def _page():
    from kedro_lakehouse.console.grids import number, show_rows

    rows = [{"keys": ("id", "part"), "rows": None, "hidden": 1}, {"keys": (), "rows": 1234}]
    show_rows(rows, {"rows": number("Rows"), "keys": "Key"}, key="grid")


def test_a_grid_has_its_fields_in_order_and_texts_in_its_cells():
    (grid,) = AppTest.from_function(_page).run().dataframe
    assert list(grid.value.columns) == ["rows", "keys"]
    assert list(grid.value["keys"]) == ["id, part", ""]
    assert grid.proto.placeholder == ""
    assert '"label": "Rows"' in grid.proto.columns
