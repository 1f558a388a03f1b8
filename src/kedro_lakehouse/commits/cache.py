"""Cache frames in memory or on disk while a batch is processed."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from pyspark import StorageLevel
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from contextlib import ExitStack

    from pyspark.sql import DataFrame


def cache(frame: DataFrame, cached: ExitStack) -> DataFrame:
    """Cache a frame's rows until the stack is closed.

    Spark shares one cache between equal plans, also across the threads of a session. Two tables that read the
    same files would then release each other's cache while it is in use. A unique filter makes each plan its
    own.
    """
    own = frame.where(F.lit(uuid.uuid4().hex) != F.lit(""))
    stored = own.persist(StorageLevel.MEMORY_AND_DISK)
    cached.callback(stored.unpersist)
    return stored
