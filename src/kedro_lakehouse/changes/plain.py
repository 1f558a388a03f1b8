"""Tables without keys: the extract, or file, to which an event belongs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import ORDER, column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_ROW_NUMBER: Final = "row_number"


def extract_of(events: DataFrame) -> Column:
    """What the events of one extract, or of one file, share: their order without the row's number."""
    names = events.schema[ORDER].dataType.fieldNames()  # type: ignore[attr-defined]
    shared = [n for n in names if n != _ROW_NUMBER] or names
    return F.struct(*[column(ORDER)[n].alias(n) for n in shared])


def newest_extract(events: DataFrame) -> DataFrame:
    """Keep the events of the newest extract among them.

    Returns:
        A lazy frame: calling this function starts no Spark job.
    """
    newest = events.agg(F.max(extract_of(events)).alias("__newest"))
    joined = events.withColumn("__extract", extract_of(events)).crossJoin(F.broadcast(newest))
    return joined.where(column("__extract") == column("__newest")).drop("__extract", "__newest")


def compare_extracts(events: DataFrame, held: DataFrame) -> DataFrame:
    """Compare the newest extract among events with the one that a table holds.

    Schema:
        events, held: both with ``_order`` of one type.
        returns: one row: ``same`` and ``late``: whether the table holds that extract, or a newer one;
            without events both are null.

    Returns:
        A lazy frame: calling this function starts no Spark job.
    """
    coming = events.agg(F.max(extract_of(events)).alias("newest"))
    there = held.agg(F.max(extract_of(held)).alias("held"))
    newest, known = column("newest"), column("held")
    compared = F.when(newest.isNotNull(), F.coalesce(newest == known, F.lit(False)))
    return coming.crossJoin(there).select(
        compared.alias("same"),
        F.when(newest.isNotNull(), F.coalesce(newest < known, F.lit(False))).alias("late"),
    )
