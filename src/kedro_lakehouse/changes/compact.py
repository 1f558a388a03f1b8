"""Trim the record of changes: what happened to a key before a horizon becomes one event."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import (
    BATCH,
    OP,
    OPENED_ORDER,
    OPENED_TIME,
    ORDER,
    TRUNCATE,
    UNSET,
    column,
    columns,
)
from kedro_lakehouse.changes.fold import last_states
from kedro_lakehouse.changes.history import EFFECTIVE_FROM, IS_CURRENT, ORDER_FROM, history_rows
from kedro_lakehouse.changes.validate import before

if TYPE_CHECKING:
    import datetime as dt

    from pyspark.sql import Column, DataFrame

    from kedro_lakehouse.changes.contract import TableContract


def is_old(horizon: dt.datetime, applied: int) -> Column:
    """Whether an event is from before the horizon, and every target has it."""
    return before(horizon) & (column(BATCH) <= applied)


def fold_old_events(
    events: DataFrame, contract: TableContract, *, horizon: dt.datetime, applied: int, opened: bool
) -> DataFrame:
    """Give what takes the place of the old events of a record: of each key one event, and one truncate.

    A key's event is its fold: the upsert with the values after all of them, or the delete. Events that
    an old truncate removed go. Times need not follow the order: an old event that is later, by its
    order, than one that stays is left as it is, and so is a truncate.

    Schema:
        events: the whole record of changes.
        returns: its columns; with ``opened`` also ``_opened_order`` and ``_opened_time``: of the event
            that opened the run that an upsert is in, null where that is the upsert itself.

    Returns:
        A lazy frame: calling this function starts no Spark job.
    """
    old, truncates = is_old(horizon, applied), column(OP) == TRUNCATE
    staying = events.where(~old & ~truncates)
    first = staying.agg(F.min(ORDER).alias("__first"))
    marked = events.where(truncates).crossJoin(F.broadcast(first))
    free = old & (column("__first").isNull() | (column(ORDER) < column("__first")))
    cut = marked.agg(F.max(F.when(free, column(ORDER))).alias("__cut"))
    walled = marked.crossJoin(F.broadcast(cut))
    held = walled.where(~free | (column(ORDER) >= column("__cut")))
    wall = walled.where(~free).agg(F.min(ORDER).alias("__wall"))
    stays = staying.groupBy(*columns(contract.keys)).agg(F.min(ORDER).alias("__stay"))
    of_keys = (
        events.where(old & ~truncates)
        .crossJoin(F.broadcast(cut))
        .where(column("__cut").isNull() | (column(ORDER) >= column("__cut")))
        .crossJoin(F.broadcast(wall))
        .join(stays, list(contract.keys), "left")
        .withColumn("__limit", F.least(column("__stay"), column("__wall")))
    )
    names = events.columns
    foldable = column("__limit").isNull() | (column(ORDER) < column("__limit"))
    folded = last_states(of_keys.where(foldable).select(*columns(names)), contract).select(*columns(names))
    if UNSET in names:
        folded = folded.withColumn(UNSET, F.lit(None).cast(events.schema[UNSET].dataType))
    if opened:
        folded = _with_opening(folded, of_keys.where(foldable).select(*columns(names)), contract)
    rest = of_keys.where(~foldable).select(*columns(names))
    others = rest.unionByName(held.where(old).select(*columns(names)))
    return folded.unionByName(others, allowMissingColumns=True)


def _with_opening(folded: DataFrame, events: DataFrame, contract: TableContract) -> DataFrame:
    """Add the order and time of the event that opened the run which the last event of a key is in."""
    runs = history_rows(events, contract).where(column(IS_CURRENT))
    opening = runs.select(
        *columns(contract.keys),
        column(ORDER_FROM).alias("__opened_order"),
        column(EFFECTIVE_FROM).alias("__opened_time"),
    )
    earlier = column("__opened_order") < column(ORDER)
    return (
        folded.drop(OPENED_ORDER, OPENED_TIME)
        .join(opening, list(contract.keys), "left")
        .withColumn(OPENED_ORDER, F.when(earlier, column("__opened_order")))
        .withColumn(OPENED_TIME, F.when(earlier, column("__opened_time")))
        .drop("__opened_order", "__opened_time")
    )
