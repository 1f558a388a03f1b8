"""Fold events in order: ties resolved, one state for each distinct order of a key."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import (
    DELETE,
    OP,
    ORDER,
    TIME,
    TRUNCATE,
    UPSERT,
    column,
    columns,
    value_columns,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, WindowSpec

    from kedro_lakehouse.changes.contract import TableContract

_WINNER: Final = "__winner"


def op_rank(contract: TableContract) -> Column:
    """Ranks operations of equal order, the stronger one higher: truncate < upsert < delete by default."""
    strong = {"upsert_wins": (0, 2, 1)}.get(contract.on_tie, (0, 1, 2))
    return (
        F.when(column(OP) == TRUNCATE, strong[0])
        .when(column(OP) == UPSERT, strong[1])
        .when(column(OP) == DELETE, strong[2])
    )


def _comparable(name: str, kind: T.DataType) -> Column:
    """A value that orders as its column does; maps, which have no order, as their sorted entries."""
    if isinstance(kind, T.MapType):
        return F.sort_array(F.map_entries(column(name)))
    return column(name)


def canonical_row(frame: DataFrame, contract: TableContract) -> Column:
    """A struct that orders rows of equal key and order as the contract says.

    Source:
        Contract section 3: non-key columns sorted by the name under which they were received,
        compared one after the other, nulls lowest; then the time.
    """
    received = contract.received_names or {}
    values = [c for c in value_columns(frame) if c not in contract.keys]
    ordered = sorted(values, key=lambda c: received.get(c, c).encode())
    types = {f.name: f.dataType for f in frame.schema.fields}
    fields = [_comparable(c, types[c]).alias(f"c{i}") for i, c in enumerate(ordered)]
    return F.struct(*fields, column(TIME).alias("time"))


def by_key(contract: TableContract) -> WindowSpec:
    """The window of one key's events from the earliest order to the latest."""
    return Window.partitionBy(*columns(contract.keys)).orderBy(column(ORDER))


def fold_states(events: DataFrame, contract: TableContract) -> DataFrame:
    """Keep, for each key and distinct order, the one event that decides the state after it.

    Schema:
        events: key and value columns + ``_op``, ``_order``, ``_time``; no truncates.
        returns: the same columns; key and ``_order`` are unique.

    Returns:
        A lazy frame: calling this function starts no Spark job.
    """
    ranked = Window.partitionBy(*columns(contract.keys)).orderBy(
        column(ORDER), op_rank(contract), canonical_row(events, contract)
    )
    following = F.lead(column(ORDER)).over(ranked)
    is_last = following.isNull() | (following != column(ORDER))
    return events.withColumn(_WINNER, is_last).where(column(_WINNER)).drop(_WINNER)


def last_states(events: DataFrame, contract: TableContract) -> DataFrame:
    """Keep, for each key, the event that decides its state after all of them: one row a key."""
    rank = F.struct(
        column(ORDER).alias("order"),
        op_rank(contract).alias("op"),
        canonical_row(events, contract).alias("row"),
    )
    last = F.max_by(F.struct(*columns(events.columns)), rank).alias("last")
    folded = events.groupBy(*[column(k).alias(f"__key{i}") for i, k in enumerate(contract.keys)]).agg(last)
    return folded.select("last.*")


def flag_repeats(events: DataFrame, contract: TableContract, *, repeat: str, tie: str) -> DataFrame:
    """Mark, within one batch, exact repeats of an event and events that tie with another one.

    Adds two booleans: ``repeat`` is true for all but one of several equal events (same key, order,
    operation, row and time), ``tie`` for all but one of several different events of a key and order.
    """
    fact = F.struct(
        column(OP).alias("op"), column(TIME).alias("time"), canonical_row(events, contract).alias("row")
    )
    window = Window.partitionBy(*columns(contract.keys)).orderBy(column(ORDER), fact)
    before = F.lag(F.struct(column(ORDER).alias("order"), fact.alias("fact"))).over(window)
    marked = events.withColumn(repeat, before).withColumn("__fact", fact)
    same_order = column(repeat)["order"].eqNullSafe(column(ORDER)) & column(repeat).isNotNull()
    same_fact = column(repeat)["fact"].eqNullSafe(column("__fact"))
    return (
        marked.withColumn(tie, same_order & ~same_fact)
        .withColumn(repeat, same_order & same_fact)
        .drop("__fact")
    )
