"""The history table (SCD2): one row for each run of events that agree on the tracked columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import (
    OP,
    OPENED_ORDER,
    OPENED_TIME,
    ORDER,
    TIME,
    UPSERT,
    column,
    columns,
    value_columns,
)
from kedro_lakehouse.changes.fold import by_key, fold_states

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kedro_lakehouse.changes.contract import TableContract

ORDER_FROM: Final = "_order_from"
ORDER_TO: Final = "_order_to"
ORDER_LAST: Final = "_order_last"
EFFECTIVE_FROM: Final = "effective_from"
EFFECTIVE_TO: Final = "effective_to"
IS_CURRENT: Final = "is_current"

HISTORY_COLUMNS: Final = (ORDER_FROM, ORDER_TO, ORDER_LAST, EFFECTIVE_FROM, EFFECTIVE_TO, IS_CURRENT)
"""Framework columns of ``<table>_history``; the others are the source's own."""


def history_rows(events: DataFrame, contract: TableContract) -> DataFrame:
    """Fold events into history rows, one for each run of upserts equal on the tracked columns.

    Schema:
        events: key and value columns + ``_op``, ``_order``, ``_time``; an event may carry
            ``_opened_order`` and ``_opened_time``: it stands for a run that opened then.
        returns: key and value columns + the framework columns of a history; (key, ``_order_from``)
            is unique and at most one row of a key is open.

    Returns:
        A lazy frame: calling this function starts no Spark job.

    Source:
        Contract section 5.
    """
    values = value_columns(events)
    states = _with_runs(fold_states(_with_opened(events), contract), contract.tracked(values), contract)
    window = by_key(contract)
    closed = states.withColumn(
        "__next", F.lead(F.struct(column(ORDER), column(TIME), column("__run"))).over(window)
    ).where((column(OP) == UPSERT) & ~column("__next")["__run"].eqNullSafe(column("__run")))
    opened_time = column("__opened")["time"]
    return closed.select(
        *columns(values),
        column("__opened")["order"].alias(ORDER_FROM),
        column("__next")[ORDER].alias(ORDER_TO),
        column(ORDER).alias(ORDER_LAST),
        opened_time.alias(EFFECTIVE_FROM),
        F.when(column("__next").isNotNull(), F.greatest(opened_time, column("__next")[TIME])).alias(
            EFFECTIVE_TO
        ),
        column("__next").isNull().alias(IS_CURRENT),
    )


def _with_opened(events: DataFrame) -> DataFrame:
    if OPENED_ORDER in events.columns:
        return events
    kinds = {f.name: f.dataType for f in events.schema.fields}
    return events.withColumns(
        {
            OPENED_ORDER: F.lit(None).cast(kinds[ORDER]),
            OPENED_TIME: F.lit(None).cast(kinds[TIME]),
        }
    )


def _with_runs(states: DataFrame, tracked: list[str], contract: TableContract) -> DataFrame:
    """Number each key's runs (``__run``) and keep what opened each (``__opened``)."""
    window = by_key(contract)
    tracked_row = F.struct(column(OP), *columns(tracked))
    opens = F.lag(tracked_row).over(window)
    opened: Column = F.struct(
        F.coalesce(column(OPENED_ORDER), column(ORDER)).alias("order"),
        F.coalesce(column(OPENED_TIME), column(TIME)).alias("time"),
    )
    return (
        states.withColumn("__before", opens)
        .withColumn("__opens", column("__before").isNull() | ~column("__before").eqNullSafe(tracked_row))
        .withColumn("__run", F.sum(column("__opens").cast("int")).over(window))
        .withColumn("__opened", F.last(F.when(column("__opens"), opened), ignorenulls=True).over(window))
        .drop("__before", "__opens")
    )


def open_rows_as_events(rows: DataFrame, order: str = ORDER_LAST) -> DataFrame:
    """Turn open history rows into the events that lead to them, so that later events fold onto them."""
    values = [c for c in rows.columns if c not in HISTORY_COLUMNS]
    return rows.select(
        *columns(values),
        F.lit(UPSERT).alias(OP),
        column(order).alias(ORDER),
        column(EFFECTIVE_FROM).alias(TIME),
        column(ORDER_FROM).alias(OPENED_ORDER),
        column(EFFECTIVE_FROM).alias(OPENED_TIME),
    )


def as_of(history: DataFrame, time: object, contract: TableContract) -> DataFrame:
    """The versions in effect at a time, at most one a key: from inclusive, to exclusive.

    Source:
        Contract section 5: of several versions that match, the one with the greatest ``_order_from``.
    """
    from pyspark.sql import Window

    moment = F.lit(time).cast(history.schema[EFFECTIVE_FROM].dataType)
    started = column(EFFECTIVE_FROM) <= moment
    lasting = column(EFFECTIVE_TO).isNull() | (moment < column(EFFECTIVE_TO))
    newest = Window.partitionBy(*columns(contract.keys)).orderBy(column(ORDER_FROM).desc())
    matching = history.where(started & lasting).withColumn("__rank", F.row_number().over(newest))
    return matching.where(column("__rank") == 1).drop("__rank")
