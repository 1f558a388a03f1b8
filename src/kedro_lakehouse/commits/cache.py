"""Frames that are kept in memory or on disk while a batch is worked on."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from contextlib import ExitStack

    from pyspark.sql import DataFrame


def cache(frame: DataFrame, cached: ExitStack) -> DataFrame:
    """Keep a frame's rows until the stack is left.

    Spark shares what it keeps between frames of one plan, and of one session's threads: two tables on the
    same files would take each other's rows away while they are read. A mark makes each plan its own.
    """
    own = frame.where(F.lit(uuid.uuid4().hex) != F.lit(""))
    stored = own.persist(StorageLevel.MEMORY_AND_DISK)
    cached.callback(stored.unpersist)
    return stored
