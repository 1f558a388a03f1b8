"""The history table (SCD2): one row for each run of events that agree on the tracked columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from kedro_lakehouse.changes.compare import comparable_row
from kedro_lakehouse.changes.digest import SURROGATE_KEY, surrogate_key
from kedro_lakehouse.changes.events import (
    DELETE,
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
TOMBSTONE: Final = "_tombstone"
"""Marks a version that says "deleted"; Iceberg keeps the name ``_deleted`` for itself."""
_DIED: Final = "__died"

HISTORY_COLUMNS: Final = (ORDER_FROM, ORDER_TO, ORDER_LAST, EFFECTIVE_FROM, EFFECTIVE_TO, IS_CURRENT)
"""Framework columns of every ``<table>_history``."""


def is_open(contract: TableContract) -> Column:
    """Whether a version is open: current or, with tombstones, a tombstone that no later version ends."""
    if contract.hard_deletes != "tombstone":
        return column(IS_CURRENT)
    return column(IS_CURRENT) | (column(TOMBSTONE) & column(ORDER_TO).isNull())


def history_rows(events: DataFrame, contract: TableContract, *, truncates: bool = True) -> DataFrame:
    """Fold events into history rows, one for each run of upserts equal on the tracked columns.

    Schema:
        events: key and value columns + ``_op``, ``_order``, ``_time``, for some tables ``_unset``; an event
            may carry ``_opened_order`` and ``_opened_time``: then its run was opened by an earlier event.
        returns: key and value columns + the framework columns of this history; (key, ``_order_from``)
            is unique and at most one row of a key is open. With ``hard_deletes: tombstone`` also a row,
            marked ``_tombstone``, for the time from a delete on.

    Returns:
        A lazy frame: calling this function starts no Spark job.

    Source:
        Contract section 5.
    """
    values = value_columns(events)
    states = fold_states(_with_opened(events), contract, truncates=truncates)
    tombstones = contract.hard_deletes == "tombstone"
    if tombstones:
        states = _with_last_values(states, contract)
    states = _with_runs(states, contract.tracked(values), contract)
    window = by_key(states, contract)
    lasting = (column(OP) == UPSERT) | column(_DIED) if tombstones else column(OP) == UPSERT
    closed = states.withColumn(
        "__next", F.lead(F.struct(column(ORDER), column(TIME), column("__run"))).over(window)
    ).where(lasting & ~column("__next")["__run"].eqNullSafe(column("__run")))
    opened_time, is_last = column("__opened")["time"], column("__next").isNull()
    alive = column(OP) == UPSERT
    ended = F.when(~is_last, F.greatest(opened_time, column("__next")[TIME]))
    rows = closed.select(
        *columns(values),
        column("__opened")["order"].alias(ORDER_FROM),
        column("__next")[ORDER].alias(ORDER_TO),
        column(ORDER).alias(ORDER_LAST),
        opened_time.alias(EFFECTIVE_FROM),
        ended.alias(EFFECTIVE_TO),
        (is_last & alive).alias(IS_CURRENT),
        *([(~alive).alias(TOMBSTONE)] if tombstones else []),
    )
    return _with_surrogate_key(rows, contract)


def only_versions(events: DataFrame, contract: TableContract) -> DataFrame:
    """The rows of a history that is made from at most one event a key, none of them a truncate.

    The same as ``history_rows``, without a shuffle: each upsert opens a version, and nothing ends it.
    """
    upserts = events.where(column(OP) == UPSERT)
    kinds = {f.name: f.dataType for f in events.schema.fields}
    rows = upserts.select(
        *columns(value_columns(events)),
        column(ORDER).alias(ORDER_FROM),
        F.lit(None).cast(kinds[ORDER].simpleString()).alias(ORDER_TO),
        column(ORDER).alias(ORDER_LAST),
        column(TIME).alias(EFFECTIVE_FROM),
        F.lit(None).cast(kinds[TIME]).alias(EFFECTIVE_TO),
        F.lit(col=True).alias(IS_CURRENT),
        *([F.lit(col=False).alias(TOMBSTONE)] if contract.hard_deletes == "tombstone" else []),
    )
    return _with_surrogate_key(rows, contract)


def _with_surrogate_key(rows: DataFrame, contract: TableContract) -> DataFrame:
    if not contract.surrogate_key:
        return rows
    return rows.withColumn(SURROGATE_KEY, surrogate_key(rows, contract.keys, ORDER_FROM))


def _with_last_values(states: DataFrame, contract: TableContract) -> DataFrame:
    """Give deletes the values of the version that they end, and mark them (``__died``)."""
    values = [c for c in value_columns(states) if c not in contract.keys]
    held = F.struct(*columns(values), F.lit(1).alias("__held"))
    said = (column(OP) == UPSERT) | column(OPENED_ORDER).isNotNull()
    window = by_key(states, contract).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    known = states.withColumn("__values", F.last(F.when(said, held), ignorenulls=True).over(window))
    return known.select(
        *[column("__values")[c].alias(c) if c in values else column(c) for c in states.columns if c != OP],
        F.when(column(OP) == UPSERT, UPSERT).otherwise(DELETE).alias(OP),
        ((column(OP) != UPSERT) & column("__values").isNotNull()).alias(_DIED),
    )


def _with_opened(events: DataFrame) -> DataFrame:
    if OPENED_ORDER in events.columns:
        return events
    kinds = {f.name: f.dataType for f in events.schema.fields}
    return events.withColumns(
        {
            OPENED_ORDER: F.lit(None).cast(kinds[ORDER].simpleString()),
            OPENED_TIME: F.lit(None).cast(kinds[TIME]),
        }
    )


def _with_runs(states: DataFrame, tracked: list[str], contract: TableContract) -> DataFrame:
    """Number each key's runs (``__run``), and add the order and time that opened each (``__opened``)."""
    window = by_key(states, contract)
    tracked_row = F.struct(column(OP), comparable_row(states, tracked))
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


def open_rows_as_events(rows: DataFrame) -> DataFrame:
    """Turn open versions into events that produce them, so that later events can be folded onto them."""
    framework = {*HISTORY_COLUMNS, TOMBSTONE, SURROGATE_KEY}
    values = [c for c in rows.columns if c not in framework]
    died = F.coalesce(column(TOMBSTONE), F.lit(False)) if TOMBSTONE in rows.columns else F.lit(False)
    return rows.select(
        *columns(values),
        F.when(died, DELETE).otherwise(UPSERT).alias(OP),
        column(ORDER_LAST).alias(ORDER),
        column(EFFECTIVE_FROM).alias(TIME),
        column(ORDER_FROM).alias(OPENED_ORDER),
        column(EFFECTIVE_FROM).alias(OPENED_TIME),
    )


def as_of(history: DataFrame, time: object, contract: TableContract) -> DataFrame:
    """The versions in effect at a time, at most one per key: from inclusive, to exclusive.

    Source:
        Contract section 5: of several versions that match, the one with the greatest ``_order_from``.
    """
    moment = F.lit(time).cast(history.schema[EFFECTIVE_FROM].dataType)
    started = column(EFFECTIVE_FROM) <= moment
    lasting = column(EFFECTIVE_TO).isNull() | (moment < column(EFFECTIVE_TO))
    newest = Window.partitionBy(*columns(contract.keys)).orderBy(column(ORDER_FROM).desc())
    alive = history
    if TOMBSTONE in history.columns:
        alive = history.where(~F.coalesce(column(TOMBSTONE), F.lit(False)))
    matching = alive.where(started & lasting).withColumn("__rank", F.row_number().over(newest))
    return matching.where(column("__rank") == 1).drop("__rank")
