"""Faults are found: three that other systems have, planted each into one table, are seen in that table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from harness.soak import only_in_soak
from model.events import DELETE, UPSERT, Event
from pyspark.sql import functions as F

from kedro_lakehouse.changes.plan import LATE, TIED
from kedro_lakehouse.commits import merge_frames as merge
from property.histories import DESIGNS, table
from property.judging import Trial

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.contract import TableContract
    from kedro_lakehouse.changes.plan import Target

pytestmark = [pytest.mark.property, pytest.mark.spark, pytest.mark.slow]


def event(op: str, key: int, order: int, value: str | None = None) -> Event:
    row = {"h": 0, "k": key}
    return Event(op, (order,), row | {"v": value, "w": None} if op == UPSERT else row)


BATCHES = [
    [event(UPSERT, 1, 5, "b"), event(UPSERT, 2, 1, "a"), event(UPSERT, 2, 9, "a"), event(DELETE, 3, 7)],
    [event(UPSERT, 1, 5, "a"), event(UPSERT, 2, 4, "x"), event(UPSERT, 3, 6, "zombie")],
]


@only_in_soak
def test_each_planted_fault_is_found_and_only_where_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark_late, changed_rows = merge.mark_late, merge.changed_rows
    rows_by_order, needs_no_target_values = merge.rows_by_order, merge.needs_no_target_values

    def seen_by(target: Target, contract: TableContract) -> Target:
        return replace(target, deletes=False) if contract.table == "cases.forgets_deletes" else target

    def faulty_mark_late(events: DataFrame, target: Target, contract: TableContract) -> DataFrame:
        marked = mark_late(events, seen_by(target, contract), contract)
        if contract.table == "cases.ties_by_arrival":
            return marked.withColumn(LATE, F.col(LATE) & ~F.col(TIED)).withColumn(TIED, F.lit(False))
        return marked

    def faulty_rows_by_order(events: DataFrame, target: Target, contract: TableContract) -> DataFrame:
        return rows_by_order(events, seen_by(target, contract), contract)

    def no_way_around_the_fault(target: Target, contract: TableContract) -> bool:
        return contract.table != "cases.ties_by_arrival" and needs_no_target_values(target, contract)

    def faulty_changed_rows(
        marked: DataFrame, target: Target, contract: TableContract, **told: Any
    ) -> DataFrame:
        if contract.table == "cases.splits_no_run" and target.kind == "history":
            return changed_rows(marked.where(~F.col(LATE)), target, contract, late=False, tied=False)
        return changed_rows(marked, target, contract, **told)

    monkeypatch.setattr(merge, "mark_late", faulty_mark_late)
    monkeypatch.setattr(merge, "rows_by_order", faulty_rows_by_order)
    monkeypatch.setattr(merge, "needs_no_target_values", no_way_around_the_fault)
    monkeypatch.setattr(merge, "changed_rows", faulty_changed_rows)
    names = ("ties_by_arrival", "splits_no_run", "forgets_deletes", "sound")
    trial = Trial(tmp_path / "project", [table(replace(DESIGNS[0], name=n), BATCHES) for n in names])
    trial.bench.project.set_globals(small_batch=0)  # small batches are applied in other processes
    found = trial.run()
    assert set(found) == {f"{name}, batch 2" for name in names[:3]}
    assert any("current: not expected" in w and "'a'" in w for w in found["ties_by_arrival, batch 2"])
    assert any("history: missing" in w and "'x'" in w for w in found["splits_no_run, batch 2"])
    assert any("current" in w and "zombie" in w for w in found["forgets_deletes, batch 2"])
