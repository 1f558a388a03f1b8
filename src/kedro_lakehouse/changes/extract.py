"""Full extracts: many of them diffed in one pass into upserts and deletes."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final, Literal

from pyspark.sql import Window
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import (
    BATCH,
    DELETE,
    OP,
    ORDER,
    POSITION,
    RAW,
    REASONS,
    TIME,
    UPSERT,
    column,
    columns,
    value_columns,
)
from kedro_lakehouse.changes.validate import DUPLICATE_KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.contract import TableContract

EXTRACT: Final = "_extract"
"""Number of an extract in its batch, from 1 in the order of time; 0 stands for the state before."""
EXTRACTS_TABLE_COLUMNS: Final = (EXTRACT, ORDER, TIME)

_ROW, _HELD, _SEGMENT, _KNOWN = "__row", "__held", "__segment", "__known"

ORDER_TYPE: Final = T.StructType(
    [T.StructField("extract_time", T.TimestampType()), T.StructField("extract_name", T.StringType())]
)


def mark_duplicate_keys(rows: DataFrame, contract: TableContract) -> DataFrame:
    """Add ``duplicate_key`` to the reasons of every row whose key occurs more than once in its extract."""
    valid = F.size(REASONS) == 0
    same_key = Window.partitionBy(*columns(contract.keys), column(EXTRACT))
    twice = F.sum(F.when(valid, 1)).over(same_key) > 1
    with_reason = F.when(valid & twice, F.array(F.lit(DUPLICATE_KEY))).otherwise(column(REASONS))
    return rows.withColumn("__reasons", with_reason).drop(REASONS).withColumnRenamed("__reasons", REASONS)


def entries(rows: DataFrame, state: DataFrame | None, contract: TableContract) -> DataFrame:
    """Collect what each extract says of each key: its row, or (quarantined row) that it is present.

    Schema:
        rows: key and value columns + ``_extract``, ``_reasons``.
        state: key and value columns of the rows that existed before; None for a new table.
        returns: keys, ``_extract``, ``__row`` (struct of values; null where the row is quarantined).
    """
    values = [c for c in value_columns(rows) if c not in contract.keys and c != EXTRACT]
    row = F.struct(*columns(values), F.lit(1).alias("__present"))
    known_key = F.lit(True)
    for key in contract.keys:
        known_key &= column(key).isNotNull()
    said = (
        rows.where(known_key)
        .groupBy(*columns(contract.keys), column(EXTRACT))
        .agg(F.first(F.when(F.size(REASONS) == 0, row), ignorenulls=True).alias(_ROW))
    )
    if state is None:
        return said
    kinds = {f.name: f.dataType for f in rows.schema.fields}
    missing = {v: F.lit(None).cast(kinds[v]) for v in values if v not in state.columns}
    before = state.withColumns(missing) if missing else state
    known = before.select(*columns(contract.keys), F.lit(0).alias(EXTRACT), row.alias(_ROW))
    return known.unionByName(said)


def _segments(said: DataFrame, contract: TableContract, *, absent_ends: bool) -> DataFrame:
    """Number, for each key, the stretches of extracts in a row that have the key (``__segment``)."""
    if not absent_ends:
        return said.withColumn(_SEGMENT, F.lit(0))
    window = Window.partitionBy(*columns(contract.keys)).orderBy(EXTRACT)
    before = F.lag(EXTRACT).over(window)
    gap = (before.isNull() | (before < column(EXTRACT) - 1)).cast("int")
    return said.withColumn("__gap", gap).withColumn(_SEGMENT, F.sum("__gap").over(window)).drop("__gap")


def diff_extracts(
    rows: DataFrame,
    state: DataFrame | None,
    contract: TableContract,
    *,
    extracts: DataFrame,
    hard_deletes: Literal["close", "ignore"] = "close",
) -> DataFrame:
    """Turn full extracts into the events that lead from one to the next.

    A key whose row is quarantined counts as present and unchanged. An unchanged row is no event.

    Schema:
        rows: checked rows of all extracts: key and value columns + ``_extract``, ``_reasons``,
            ``_position``, ``_raw``, ``_batch``.
        extracts: one row an extract: ``_extract`` (1, 2, 3, … without gaps), ``_order``, ``_time``.
        returns: checked events: key and value columns + ``_op``, ``_order``, ``_time``, ``_position``,
            ``_raw``, ``_reasons``, ``_batch``; quarantined rows keep their reasons.

    Returns:
        A lazy frame: calling this function starts no Spark job.
    """
    keys = list(contract.keys)
    values = [c for c in value_columns(rows) if c not in keys and c != EXTRACT]
    last = extracts.agg(F.max(EXTRACT).alias("__n"))
    said = _segments(entries(rows, state, contract), contract, absent_ends=hard_deletes == "close")
    inside = Window.partitionBy(*columns(keys), column(_SEGMENT)).orderBy(EXTRACT)
    earlier = inside.rowsBetween(Window.unboundedPreceding, -1)
    known = F.last(_ROW, ignorenulls=True)
    stated = (
        said.withColumn("__before", known.over(earlier))
        .withColumn(_KNOWN, known.over(inside.rowsBetween(Window.unboundedPreceding, Window.currentRow)))
        .withColumn("__ends", F.lead(EXTRACT).over(inside).isNull())
        .crossJoin(F.broadcast(last))
    )
    upserts = (column(EXTRACT) > 0) & column(_ROW).isNotNull() & ~column(_ROW).eqNullSafe(column("__before"))
    deletes = column("__ends") & column(_KNOWN).isNotNull() & (column(EXTRACT) < column("__n"))
    no_row = F.lit(None).cast(stated.schema[_ROW].dataType)
    facts = [
        F.when(
            upserts, F.struct(F.lit(UPSERT).alias(OP), column(EXTRACT).alias("at"), column(_ROW).alias("row"))
        )
    ]
    if hard_deletes == "close":
        deleted = F.struct(F.lit(DELETE).alias(OP), (column(EXTRACT) + 1).alias("at"), no_row.alias("row"))
        facts.append(F.when(deletes, deleted))
    events = stated.select(
        *columns(keys), F.explode(F.filter(F.array(*facts), lambda f: f.isNotNull())).alias("e")
    )
    changed = events.select(
        *columns(keys),
        *[column("e")["row"][v].alias(v) for v in values],
        column("e")[OP].alias(OP),
        column("e")["at"].alias(EXTRACT),
    )
    empty = F.array().cast("array<string>")
    accepted = changed.withColumns({RAW: F.lit(None).cast("string"), REASONS: empty})
    refused = rows.where(F.size(REASONS) > 0).select(
        *columns([c for c in rows.columns if c not in (BATCH, ORDER, TIME)])
    )
    refused = refused.withColumn(OP, F.lit(UPSERT))
    joined = refused.unionByName(accepted, allowMissingColumns=True).join(
        F.broadcast(extracts), EXTRACT, "inner"
    )
    stood = F.struct(
        F.coalesce(column(POSITION)["file"], column(ORDER)["extract_name"]).alias("file"),
        column(POSITION)["row"].alias("row"),
    )
    return joined.withColumn(POSITION, stood).drop(EXTRACT)


def count_extracts(
    rows: DataFrame, state: DataFrame | None, contract: TableContract, accepted: Sequence[int]
) -> DataFrame:
    """Count, for each extract of a sequence, its keys and the keys that it lost since the one before.

    Schema:
        accepted: numbers of the extracts that count, in order; the state before stands first.
        returns: ``_extract``, ``keys`` (present in it), ``rows`` (those that are not quarantined),
            ``lost`` (present in the one before only).

    Returns:
        A lazy frame: calling this function starts no Spark job.
    """
    following = {0: accepted[0] if accepted else None} | dict(itertools.pairwise(accepted))
    pairs = [F.when(column(EXTRACT) == i, F.lit(n)) for i, n in following.items() if n is not None]
    said = entries(rows, state, contract).where(column(EXTRACT).isin(0, *accepted))
    window = Window.partitionBy(*columns(contract.keys)).orderBy(EXTRACT)
    successor = F.coalesce(*pairs) if pairs else F.lit(None).cast("int")
    stated = said.select(
        column(EXTRACT),
        successor.alias("__expected"),
        F.lead(EXTRACT).over(window).alias("__next"),
        column(_ROW).isNotNull().cast("long").alias("rows"),
    )
    lost = stated.where(column("__expected").isNotNull() & ~column("__next").eqNullSafe(column("__expected")))
    present = stated.groupBy(EXTRACT).agg(
        F.count(F.lit(1)).alias("keys"), F.sum("rows").alias("rows"), F.lit(0).cast("long").alias("lost")
    )
    missing = lost.groupBy(column("__expected").alias(EXTRACT)).agg(
        F.lit(0).cast("long").alias("keys"),
        F.lit(0).cast("long").alias("rows"),
        F.count(F.lit(1)).alias("lost"),
    )
    return (
        present.unionByName(missing)
        .groupBy(EXTRACT)
        .agg(F.sum("keys").alias("keys"), F.sum("rows").alias("rows"), F.sum("lost").alias("lost"))
    )
