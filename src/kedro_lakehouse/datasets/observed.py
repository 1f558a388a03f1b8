"""What Spark observed while it wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import Observation
from pyspark.sql import functions as F

from kedro_lakehouse.datasets.kept import keep

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from pyspark.sql import DataFrame


def observed(observation: Observation) -> dict[str, Any]:
    """The metrics of a finished write; none where Spark saw beforehand that no row would come.

    An adaptive plan that turns out empty loses its observations, and ``Observation.get`` then fails.
    """
    row = cast("Any", observation)._jo.getRow()  # noqa: SLF001 - the only way to ask without failing
    return dict(observation.get) if row.schema() is not None else {}


def counted(rows: DataFrame, kept: ExitStack, *, sorted_write: bool) -> tuple[DataFrame, Callable[[], int]]:
    """Rows to write, and how to ask after the write how many they were.

    A write that sorts reads its rows twice, the first time to find the ranges: an observation would
    count them twice, so they are kept in memory until the stack is left.
    """
    if sorted_write:
        stored = keep(rows, kept)
        return stored, stored.count
    seen = Observation()
    watched = rows.observe(seen, F.count(F.lit(1)).alias("rows"))
    return watched, lambda: int(observed(seen).get("rows", 0))
