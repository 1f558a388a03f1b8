"""Full extracts: their rows, and the events that lead from one extract to the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

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
    TRUNCATE,
    UPSERT,
    column,
    columns,
    value_columns,
)
from kedro_lakehouse.changes.fold import canonical_row
from kedro_lakehouse.changes.validate import DUPLICATE_KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from kedro_lakehouse.changes.contract import TableContract

EXTRACT: Final = "_extract"
"""Number of an extract in its batch, from 1 in the order of time; 0 stands for the state before."""
UNTIL: Final = "__until"
"""Number of the last extract of a run: all extracts from ``_extract`` to it have the row. Only where lines
that extracts have in common were read as one."""
VALID_FROM: Final = "__valid_from"
"""A row's own start as a timestamp; only where the contract names the column that holds it."""
START: Final = "__start"
"""The declared start of the first load's rows; null for every other extract."""
HELD_ROW, STATED, RETURNS, ENDED = "__row", "__stated", "__returns", "__ended"
"""Columns of a snapshot diff: the row; its start; whether its key had no row just before it; and, if so,
which extract of this batch deleted the key's last row."""

ORDER_TYPE: Final = T.StructType(
    [T.StructField("extract_time", T.TimestampType()), T.StructField("extract_name", T.StringType())]
)


def row_columns(rows: DataFrame, contract: TableContract) -> list[str]:
    """The value columns of extracted rows, without the keys and the framework's columns."""
    return [c for c in value_columns(rows) if c not in (*contract.keys, EXTRACT, UNTIL, VALID_FROM)]


def starts_by_column(contract: TableContract) -> str | None:
    """The column with the time from which a row is valid; None where the contract names none."""
    return contract.updated_at or contract.valid_from


def mark_duplicate_keys(rows: DataFrame, contract: TableContract) -> DataFrame:
    """Add ``duplicate_key`` to the reasons of every row whose key occurs more than once in its extract."""
    valid = F.size(REASONS) == 0
    same_key = Window.partitionBy(*columns(contract.keys), column(EXTRACT))
    twice = F.sum(F.when(valid, 1)).over(same_key) > 1
    with_reason = F.when(valid & twice, F.array(F.lit(DUPLICATE_KEY))).otherwise(column(REASONS))
    return rows.withColumn("__reasons", with_reason).drop(REASONS).withColumnRenamed("__reasons", REASONS)


def keep_newest_rows(rows: DataFrame, contract: TableContract) -> DataFrame:
    """Keep one valid row per key and extract: the newest by ``order_by``, among equals the greatest row.

    Quarantined rows stay as they are.
    """
    time = column(VALID_FROM) if VALID_FROM in rows.columns else F.lit(None).cast("timestamp")
    timed = rows.withColumn(TIME, time)
    newest = F.struct(
        *[column(c).alias(f"o{i}") for i, c in enumerate(contract.order_by)],
        canonical_row(timed.drop(EXTRACT, VALID_FROM), contract).alias("row"),
    )
    valid = F.size(REASONS) == 0
    same_key = Window.partitionBy(*columns(contract.keys), column(EXTRACT), valid)
    ranked = timed.withColumn("__rank", F.row_number().over(same_key.orderBy(newest.desc())))
    return ranked.where((column("__rank") == 1) | ~valid).drop("__rank", TIME)


def renumber_extracts(rows: DataFrame, accepted: Sequence[int]) -> DataFrame:
    """Keep the rows of some extracts, given by rising numbers, and number these from 1 on."""
    most = max(accepted, default=0) + 1
    # Looked up: counted by two functions over arrays in one select, the numbers were wrong on Spark 3.5.
    new_first = [sum(a < n for a in accepted) + 1 for n in range(1, most + 1)]
    new_last = [sum(a <= n for a in accepted) for n in range(1, most + 1)]

    def looked_up(numbers: Sequence[int], name: str) -> Column:
        return F.element_at(F.array(*map(F.lit, numbers)), F.least(column(name), F.lit(most)).cast("int"))

    last = UNTIL if UNTIL in rows.columns else EXTRACT
    numbered = {EXTRACT: looked_up(new_first, EXTRACT), "__last": looked_up(new_last, last)}
    kept = rows.withColumns(numbered).where(column(EXTRACT) <= column("__last"))
    if UNTIL in rows.columns:
        kept = kept.withColumn(UNTIL, column("__last"))
    return kept.drop("__last")


def in_each_extract(rows: DataFrame) -> DataFrame:
    """Rows of runs as one row for each extract; other rows as they are."""
    if UNTIL not in rows.columns:
        return rows
    return rows.withColumn(EXTRACT, F.explode(F.sequence(column(EXTRACT), column(UNTIL)))).drop(UNTIL)


def events_of_extracts(
    rows: DataFrame,
    differences: DataFrame,
    contract: TableContract,
    *,
    extracts: DataFrame,
    past_ends: DataFrame | None = None,
) -> DataFrame:
    """Turn a snapshot diff into checked events: upserts, deletes, and the quarantined rows.

    Schema:
        rows: checked rows of all extracts: key and value columns + ``_extract``, ``_reasons``,
            ``_position``, ``_raw``.
        differences: what ``changes.snapshot_diff.snapshot_diff`` returns for these rows.
        extracts: one row per extract: ``_extract`` (1, 2, 3, … without gaps), ``_order``, ``_time``,
            ``__start``.
        past_ends: keys + ``__past_end``: the time at which an earlier batch last deleted the key.
        returns: checked events: key and value columns + ``_op``, ``_order``, ``_time``, ``_position``,
            ``_raw``, ``_reasons``; quarantined rows keep their reasons.

    Returns:
        A lazy frame: calling this function starts no Spark job.

    Source:
        Contract section 9: a key that is inserted again starts at the later of its row's start and its
            last delete.
    """
    changed = differences.where(column(OP).isin(UPSERT, DELETE))
    time: Column = F.coalesce(column(START), column(TIME))
    if starts_by_column(contract):
        ends = extracts.select(column(EXTRACT).alias(ENDED), column(ORDER)["extract_time"].alias("__end"))
        changed = changed.join(F.broadcast(ends), ENDED, "left")
        end: Column = column("__end")
        if past_ends is not None:
            changed = changed.join(past_ends, list(contract.keys), "left")
            end = F.coalesce(end, column("__past_end"))
        start = F.when(column(RETURNS), F.greatest(column(STATED), end)).otherwise(column(STATED))
        time = F.coalesce(column(START), start, column(TIME))
    accepted = changed.join(F.broadcast(extracts), EXTRACT, "inner").select(
        *columns(contract.keys),
        *[column(HELD_ROW)[v].alias(v) for v in row_columns(rows, contract)],
        column(OP),
        column(ORDER),
        F.when(column(OP) == UPSERT, time).otherwise(column(ORDER)["extract_time"]).alias(TIME),
        _whole_extract(),
        *_untroubled(),
    )
    return accepted.unionByName(_quarantined(rows, contract, extracts))


def past_ends_of(changes: DataFrame, contract: TableContract) -> DataFrame:
    """When each key was last deleted: keys + ``__past_end``."""
    deletes = changes.where(column(OP) == DELETE)
    return deletes.groupBy(*columns(contract.keys)).agg(F.max_by(TIME, ORDER).alias("__past_end"))


def rows_as_events(rows: DataFrame, contract: TableContract, *, extracts: DataFrame) -> DataFrame:
    """Turn every row of extracts into an event: for tables without keys, whose rows are not compared.

    With ``write: replace`` an extract without valid rows becomes a truncate.

    Schema:
        rows, extracts, returns: as in ``events_of_extracts``.
    """
    valid = F.size(REASONS) == 0
    time = F.coalesce(column(START), column(TIME))
    if starts_by_column(contract):
        time = F.coalesce(column(START), column(VALID_FROM), column(TIME))
    values = row_columns(rows, contract)
    accepted = (
        rows.where(valid)
        .join(F.broadcast(extracts), EXTRACT, "inner")
        .select(*columns(values), F.lit(UPSERT).alias(OP), ORDER, time.alias(TIME), POSITION, *_untroubled())
    )
    if contract.write == "replace":
        empty = extracts.join(rows.where(valid).select(EXTRACT).distinct(), EXTRACT, "left_anti")
        truncates = empty.select(F.lit(TRUNCATE).alias(OP), ORDER, TIME, _whole_extract(), *_untroubled())
        accepted = accepted.unionByName(truncates, allowMissingColumns=True)
    return accepted.unionByName(_quarantined(rows, contract, extracts))


def _whole_extract() -> Column:
    """The position of an event that comes from an extract as a whole: it has no row number."""
    file = column(ORDER)["extract_name"].alias("file")
    return F.struct(file, F.lit(None).cast("long").alias("row")).alias(POSITION)


def _untroubled() -> tuple[Column, Column]:
    return F.lit(None).cast("string").alias(RAW), F.array().cast("array<string>").alias(REASONS)


def _quarantined(rows: DataFrame, contract: TableContract, extracts: DataFrame) -> DataFrame:
    refused = rows.where(F.size(REASONS) > 0).drop(BATCH, VALID_FROM)
    joined = refused.join(F.broadcast(extracts), EXTRACT, "inner")
    names = [*contract.keys, *row_columns(rows, contract)]
    place = F.struct(*[column(POSITION)[name].alias(name) for name in ("file", "row")]).alias(POSITION)
    return joined.select(*columns(names), F.lit(UPSERT).alias(OP), ORDER, TIME, place, RAW, REASONS)
