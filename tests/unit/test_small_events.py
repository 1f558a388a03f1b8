"""Whether few events can be stored without looking for repeats in the change log with Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from kedro_lakehouse.changes.contract import TableContract
from kedro_lakehouse.commits.rows import Staged
from kedro_lakehouse.commits.small_events import SmallEvents
from kedro_lakehouse.formats.base import PlacedRows

pytestmark = pytest.mark.unit


def events(*rows: tuple[Any, int], key: pa.DataType | None = None, op: str = "upsert") -> pa.Table:
    """Events of (key, order)."""
    at = pa.struct([("at", pa.int64())])
    return pa.table(
        {
            "id": pa.array([key for key, _ in rows], key or pa.int64()),
            "_order": pa.array([{"at": order} for _, order in rows], at),
            "_op": pa.array([op] * len(rows)),
        }
    )


class Log:
    """The change log, and what was asked of it."""

    def __init__(self, held: pa.Table | None) -> None:
        self.held = held
        self.asked: list[Any] = []

    def find_rows(
        self, _table: Any, _state: Any, among: Any, *, most_bytes: int, near: Any
    ) -> PlacedRows | None:
        assert most_bytes > 0
        self.asked.append((among, near))
        return None if self.held is None else PlacedRows(rows=self.held, places=[])


def are_apart(new: pa.Table, log: Log) -> bool:
    table: Any = SimpleNamespace(
        contract=TableContract(table="a.b", keys=("id",)), format=log, changes="a.b_changes"
    )
    large: Any = None
    staged = Staged(events_in=1, quarantined=0, first_orders=(1, 9))
    state: Any = None
    return SmallEvents(table, new, large)._are_apart(state, staged)


def test_events_are_apart_if_no_key_has_an_order_again() -> None:
    log = Log(events((1, 5), (2, 7)))
    assert are_apart(events((1, 7), (2, 5), (3, 7)), log)
    assert log.asked == [({"id": [1, 2, 3]}, ("_order.at", 1, 9))]
    assert not are_apart(events((1, 7), (2, 7)), log)
    assert are_apart(events((1, 1)), Log(events()))


def test_what_is_not_told_is_not_apart() -> None:
    assert not are_apart(events((1, 7)), Log(None))
    assert not are_apart(events((1, 7)), Log(events((1, 5), key=pa.int32())))
    assert not are_apart(events((0.0, 7), key=pa.float64()), Log(events((-0.0, 7), key=pa.float64())))
    assert not are_apart(events((None, 7), op="truncate"), Log(events()))
