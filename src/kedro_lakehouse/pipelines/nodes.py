"""Nodes that plan how a table's accepted events change its current and its history table."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.contract import TableContract
    from kedro_lakehouse.changes.plan import MergePlan


def plan_merge(changes: DataFrame, *, contract: TableContract) -> tuple[MergePlan, MergePlan]:
    """Plan the current table: the last event of each key is its row, unless it is a delete.

    Of a table without keys each event is a row, or with ``write: replace`` those of the newest extract.

    Returns:
        The plan for the table, and for those who read it: they wait until the first one is committed.
    """
    from kedro_lakehouse.changes.plan import MergePlan

    plan = MergePlan(kind="current", contract=contract, events=changes)
    return plan, plan


def plan_versions(changes: DataFrame, *, contract: TableContract, readers: int = 0) -> tuple[MergePlan, ...]:
    """Plan the history: each event that changes a tracked column opens a version and ends the one before.

    Returns:
        The plan for the history, and for each kind of readers: they wait until the first one is committed.
    """
    from kedro_lakehouse.changes.plan import MergePlan

    plan = MergePlan(kind="history", contract=contract, events=changes)
    return (plan,) * (1 + readers)
