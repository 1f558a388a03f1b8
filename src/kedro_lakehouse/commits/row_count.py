"""The row count of a write, as Spark observed it."""

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
    """The rows to write, and a function that returns their count after the write.

    A write that sorts reads its rows twice, the first time to find the sort ranges. An observation would
    count them twice, so such rows are cached until the stack is closed, and counted there.
    """
    if sorted_write:
        stored = cache(rows, cached)
        return stored, stored.count
    seen = Observation()
    watched = rows.observe(seen, F.count(F.lit(1)).alias("rows"))
    return watched, lambda: int(observed(seen).get("rows", 0))


def sorts_writes(table: TableConfig) -> bool:
    """Whether a write to a target of the table sorts its rows, and so reads them twice."""
    return Layout(sort_by=table.sort_by, properties=table.properties).sorts_writes
