"""How many rows a write wrote, as Spark observed it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Observation
from pyspark.sql import functions as F

from kedro_lakehouse.commits.cache import cache
from kedro_lakehouse.formats.base import Layout
from kedro_lakehouse.session.observation import observed

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from pyspark.sql import DataFrame

    from kedro_lakehouse.config.tables import TableConfig


def with_row_count(
    rows: DataFrame, cached: ExitStack, *, sorted_write: bool
) -> tuple[DataFrame, Callable[[], int]]:
    """Rows to write, and how to ask after the write how many they were.

    A write that sorts reads its rows twice, the first time to find the ranges: an observation would
    count them twice, so they are kept in memory until the stack is left.
    """
    if sorted_write:
        stored = cache(rows, cached)
        return stored, stored.count
    seen = Observation()
    watched = rows.observe(seen, F.count(F.lit(1)).alias("rows"))
    return watched, lambda: int(observed(seen).get("rows", 0))


def sorts_writes(table: TableConfig) -> bool:
    """Whether a write to a target of the table sorts its rows, for which they are read twice."""
    return Layout(sort_by=table.sort_by, properties=table.properties).sorts_writes
