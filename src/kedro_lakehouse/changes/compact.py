"""Compact the change log: replace a key's events from before a horizon by one event."""

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
    """Whether an event took effect before the horizon and is applied to every target (up to ``applied``)."""
    return before(horizon) & (column(BATCH) <= applied)


def fold_old_events(
    events: DataFrame, contract: TableContract, *, horizon: dt.datetime, applied: int, opened: bool
) -> DataFrame:
    """Return the events that replace the old events of a change log: one for each key, and one truncate.

    Old events are those of ``is_old``. The old events of a key are folded into one: the upsert with the
    values after all of them, or the delete. Old events that an old truncate deleted are left out; of such
    truncates only the last is returned.

    Times need not follow the order. So some old events cannot be folded, and are returned as they are
    ("earlier" means a smaller order): a truncate that is not earlier than every event that is not old; an
    event that is not earlier than such a truncate, or than one that is not old; and an event that is not
    earlier than every event of its key that is not old.

    For example, the old events "order 1: upsert a" and "order 2: upsert b" of a key become "order 2:
    upsert b". If the event with order 2 is not old, the one with order 1 is folded alone.

    Schema:
        events: the whole change log.
        returns: its columns; with ``opened`` also ``_opened_order`` and ``_opened_time``: of the event that
            opened the version to which an upsert belongs, null where the upsert itself opened it.

    Returns:
        A lazy frame: calling this function starts no Spark job.
    """
    old, truncates = is_old(horizon, applied), column(OP) == TRUNCATE
    staying = events.where(~old & ~truncates)
    # An old truncate is free if it is earlier than every event that stays. The last free one is the cut: it
    # deleted whatever is before it. The first one that is not free is the wall: no fold may reach across it.
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
    """Add the order and time of the event that opened the version to which a key's last event belongs."""
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
