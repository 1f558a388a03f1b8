"""Which events of a small batch may be late, so that the past of their keys is read."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kedro_lakehouse.changes.contract import TableContract
from kedro_lakehouse.commits.small_rules import unsure_events

pytestmark = pytest.mark.unit

PLACE = pa.struct([("file", pa.int64()), ("pos", pa.int64())])
CONTRACT = TableContract(table="a.b", keys=("id",))


def rows(orders: dict[int, tuple[Any, Any]]) -> pa.Table:
    """A row of each key, with its order."""
    found = [{"file": file, "pos": pos} for file, pos in orders.values()]
    return pa.table({"id": list(orders), "_order": pa.array(found, PLACE)})


@pytest.mark.parametrize(
    ("order", "held", "is_unsure"),
    [
        ((2, 1), (1, 9), False),
        ((1, 9), (2, 1), True),
        ((1, 6), (1, 5), False),  # a later record of the same file
        ((1, 5), (1, 5), True),
        ((1, 4), (1, 5), True),
        ((None, 6), (1, 5), True),
        ((1, None), (1, 5), True),
        ((1, 6), (1, None), True),
        ((2, None), (1, None), False),
    ],
)
def test_an_event_is_unsure_unless_it_comes_after_its_row(order: Any, held: Any, is_unsure: bool) -> None:
    found = unsure_events(rows({1: order}), rows({1: held}), "current", CONTRACT, deletes=False)
    assert bool(found.num_rows) is is_unsure


@pytest.mark.parametrize("deletes", [True, False])
def test_a_key_without_a_row_may_have_been_deleted(deletes: bool) -> None:
    found = unsure_events(
        rows({1: (1, 1), 2: (1, 2)}), rows({2: (1, 1)}), "current", CONTRACT, deletes=deletes
    )
    assert found["id"].to_pylist() == ([1] if deletes else [])
