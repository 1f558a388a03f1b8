"""Three faults that other systems have, each planted into one of the rules by which a commit plans."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from kedro_lakehouse.changes import plan, plan_rows
from kedro_lakehouse.changes.plan import LATE, TIED
from rules.frames import Planning

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.contract import TableContract
    from kedro_lakehouse.changes.plan import Target


def _ties_by_arrival(events: DataFrame, target: Target, contract: TableContract) -> DataFrame:
    marked = plan.mark_late(events, target, contract)
    return marked.withColumn(LATE, F.col(LATE) & ~F.col(TIED)).withColumn(TIED, F.lit(False))


def _splits_no_run(marked: DataFrame, target: Target, contract: TableContract, **found: Any) -> DataFrame:
    if target.kind == "current":
        return plan_rows.changed_rows(marked, target, contract, **found)
    return plan_rows.changed_rows(marked.where(~F.col(LATE)), target, contract, late=False, tied=False)


def _forgets_deletes(events: DataFrame, target: Target, contract: TableContract) -> DataFrame:
    return plan.mark_late(events, replace(target, deletes=False), contract)


FAULTS = {
    "ties_by_arrival": Planning(mark_late=_ties_by_arrival, needs_no_target_values=lambda *_: False),
    "splits_no_run": Planning(changed_rows=_splits_no_run),
    "forgets_deletes": Planning(mark_late=_forgets_deletes, needs_no_target_values=lambda *_: False),
}
"""By what is wrong: an event that ties is applied because it came later; a late event does not split a
version; an event from before a delete brings its row back."""
