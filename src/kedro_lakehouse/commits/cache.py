"""Cache frames while a batch is processed, and count the rows of a write."""

from __future__ import annotations

import uuid
from contextlib import ExitStack
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import Observation
from pyspark.sql import functions as F

from kedro_lakehouse.formats.base import Layout
from kedro_lakehouse.session.observation import observed

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from kedro_lakehouse.config.tables import TableConfig


def cache(frame: DataFrame, cached: ExitStack, *, few: bool = False) -> DataFrame:
    """Cache a frame's rows until the stack is closed.

    ``few`` rows are kept as they are: Spark's own cache turns rows into columns with statistics, and looks
    for each part of each later plan in itself. Java's garbage collection releases kept rows. An executor that
    is lost takes them along, and nothing computes them again, so only the driver's own executor keeps any.

    Spark's cache is shared between equal plans, also across the threads of a session. Two tables that read
    the same files would then release each other's cache while it is in use. A unique filter makes each plan
    its own.
    """
    if few and (frame.sparkSession.conf.get("spark.master", None) or "").startswith("local"):
        return frame.localCheckpoint(eager=False)
    own = frame.where(F.lit(uuid.uuid4().hex) != F.lit(""))
    stored = own.persist(StorageLevel.MEMORY_AND_DISK)
    cached.callback(stored.unpersist)
    return stored


def write_counted(rows: DataFrame, write: Callable[[DataFrame], None], table: TableConfig) -> int:
    """Write rows to a target of a table; return how many were written.

    A write that sorts reads its rows twice, the first time to find the sort ranges. An observation would
    count them twice, so such rows are cached, and counted there.
    """
    if Layout(sort_by=table.sort_by, properties=table.properties).sorts_writes:
        with ExitStack() as cached:
            stored = cache(rows, cached)
            write(stored)
            return stored.count()
    seen = Observation()
    write(rows.observe(seen, F.count(F.lit(1)).alias("rows")))
    return int(observed(seen).get("rows", 0))
