"""Order and time of events where a declaration names the columns that tell them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import ORDER, TIME, column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.contract import TableContract


def declared_order(events: DataFrame, contract: TableContract) -> DataFrame:
    """Replace the source's order and time by the declared columns; without a declaration nothing changes.

    Returns:
        A lazy frame: calling this function starts no Spark job.
    """
    if contract.order_by:
        fields = [column(name).alias(name) for name in contract.order_by]
        events = events.withColumn(ORDER, F.struct(*fields))
    if contract.effective_time:
        events = events.withColumn(TIME, column(contract.effective_time))
    return events
