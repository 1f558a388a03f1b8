"""Fold events in order: resolve ties, and give one state for each distinct order of a key."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from kedro_lakehouse.changes.compare import comparable
from kedro_lakehouse.changes.events import (
    DELETE,
    OP,
    ORDER,
    TIME,
    TRUNCATE,
    UNSET,
    UPSERT,
    column,
    columns,
    order_fields,
    value_columns,
)
from kedro_lakehouse.changes.truncates import spread_truncates

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, WindowSpec

    from kedro_lakehouse.changes.contract import TableContract

_WINNER, _RESETS, _LIFE = "__winner", "__resets", "__life"


def op_rank(contract: TableContract) -> Column:
    """Rank operations of equal order, the stronger one higher: by default truncate < upsert < delete."""
    strong = {"upsert_wins": (0, 2, 1)}.get(contract.on_tie, (0, 1, 2))
    return (
        F.when(column(OP) == TRUNCATE, strong[0])
        .when(column(OP) == UPSERT, strong[1])
        .when(column(OP) == DELETE, strong[2])
    )


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
    fields = [comparable(column(c), types[c]).alias(f"c{i}") for i, c in enumerate(ordered)]
    # A value that was not sent compares as null; the names of such columns break the ties that are left.
    sent = [column(UNSET).alias("unset")] if UNSET in types else []
    return F.struct(*fields, column(TIME).alias("time"), *sent)


def by_key(events: DataFrame, contract: TableContract) -> WindowSpec:
    """The window of one key's events from the earliest order to the latest."""
    return Window.partitionBy(*columns(contract.keys)).orderBy(*order_fields(events))


def fold_states(events: DataFrame, contract: TableContract, *, truncates: bool = True) -> DataFrame:
    """Keep, for each key and distinct order, the one event that decides the state after it.

    An upsert that leaves values out inherits them from the events before it, but from none before the last
    delete or truncate, even if that one lost a tie.

    Schema:
        events: key and value columns + ``_op``, ``_order``, ``_time``, where values may be left out also
            ``_unset``; ``truncates`` says whether any may be among them.
        returns: the same columns; key and ``_order`` are unique.

    Returns:
        A lazy frame: calling this function starts no Spark job.
    """
    of_keys = spread_truncates(events, contract) if truncates else events
    ranked = Window.partitionBy(*columns(contract.keys)).orderBy(
        *order_fields(of_keys), op_rank(contract), canonical_row(of_keys, contract)
    )
    following = F.lead(column(ORDER)).over(ranked)
    marked = of_keys.withColumn(_WINNER, following.isNull() | (following != column(ORDER)))
    partial = inherits(events, contract)
    if partial:
        tied = Window.partitionBy(*columns(contract.keys), column(ORDER))
        marked = marked.withColumn(_RESETS, F.max(column(OP) != UPSERT).over(tied))
    winners = marked.where(column(_WINNER)).drop(_WINNER)
    return _inherit(winners, contract) if partial else winners


def inherits(events: DataFrame, contract: TableContract) -> bool:
    """Whether upserts of these events may leave values as they were."""
    return bool(contract.ignore_null) or UNSET in events.columns


def _inherit(states: DataFrame, contract: TableContract) -> DataFrame:
    """Fill the values that upserts left out from earlier states since the last delete or truncate."""
    by_keys = columns(contract.keys)
    life = F.sum(column(_RESETS).cast("int")).over(by_key(states, contract))
    so_far = (
        Window.partitionBy(*by_keys, column(_LIFE))
        .orderBy(*order_fields(states))
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    filled: dict[str, Column] = {}
    for name in value_columns(states):
        if contract.ignores_null(name):
            filled[name] = F.last(column(name), ignorenulls=True).over(so_far)
        elif UNSET in states.columns and name not in contract.keys:
            sent = F.when(
                (column(OP) == UPSERT) & ~F.coalesce(F.array_contains(UNSET, name), F.lit(False)),
                F.struct(column(name).alias("v")),
            )
            filled[name] = F.last(sent, ignorenulls=True).over(so_far)["v"]
    return states.withColumn(_LIFE, life).select(
        *[
            F.when(column(OP) == UPSERT, filled[c]).alias(c) if c in filled else column(c)
            for c in states.columns
            if c != _RESETS
        ]
    )


def only_rows(events: DataFrame) -> DataFrame:
    """The rows of a current table that is made from at most one event a key, none of them a truncate.

    The same as ``current_rows``, without a shuffle.
    """
    return events.where(column(OP) == UPSERT).select(*columns(value_columns(events)), column(ORDER))


def rank_of(events: DataFrame, contract: TableContract) -> Column:
    """The rank of an event among those of its key: the event with the greatest rank is the last."""
    return F.struct(
        column(ORDER).alias("order"),
        op_rank(contract).alias("op"),
        canonical_row(events, contract).alias("row"),
    )


def last_states(events: DataFrame, contract: TableContract, *, truncates: bool = True) -> DataFrame:
    """Keep, for each key, the event that decides its state after all of them: one row per key."""
    if inherits(events, contract):
        states = fold_states(events, contract, truncates=truncates)
        rank = column(ORDER)
    else:
        states = spread_truncates(events, contract) if truncates else events
        rank = rank_of(states, contract)
    last = F.max_by(F.struct(*columns(states.columns)), rank).alias("last")
    folded = states.groupBy(*[column(k).alias(f"__key{i}") for i, k in enumerate(contract.keys)]).agg(last)
    return folded.select("last.*")


def current_rows(events: DataFrame, contract: TableContract, *, truncates: bool = True) -> DataFrame:
    """Fold events into the rows that exist after them: those of the current table (SCD1).

    Schema:
        events: key and value columns + ``_op``, ``_order``, ``_time``, for some tables ``_unset``;
            ``truncates`` says whether any may be among them.
        returns: key and value columns + ``_order`` (of the last event); one row per key.

    Returns:
        A lazy frame: calling this function starts no Spark job.
    """
    last = last_states(events, contract, truncates=truncates).where(column(OP) == UPSERT)
    return last.select(*columns(value_columns(events)), column(ORDER))


def flag_repeats(
    events: DataFrame, contract: TableContract, *, repeat: str, tie: str, again: str
) -> DataFrame:
    """Mark, within one batch, exact repeats of an event, events that tie with another one, and later ones.

    Adds three booleans: ``repeat`` is true for all but one of several equal events (same key, order,
    operation, row and time), ``tie`` for all but one of several different events of a key and order,
    ``again`` for all but one of the events of a key.
    """
    fact = F.struct(
        column(OP).alias("op"), column(TIME).alias("time"), canonical_row(events, contract).alias("row")
    )
    window = Window.partitionBy(*columns(contract.keys)).orderBy(*order_fields(events), fact)
    before = F.lag(F.struct(column(ORDER).alias("order"), fact.alias("fact"))).over(window)
    # Each step that makes a frame is analysed by Spark: few steps for many columns.
    marked = events.withColumns({repeat: before, "__fact": fact})
    same_order = column(repeat)["order"].eqNullSafe(column(ORDER)) & column(repeat).isNotNull()
    same_fact = column(repeat)["fact"].eqNullSafe(column("__fact"))
    return marked.select(
        *columns(events.columns),
        column(repeat).isNotNull().alias(again),
        (same_order & ~same_fact).alias(tie),
        (same_order & same_fact).alias(repeat),
    )
