"""Order and time of events, from the columns that a declaration names or from the source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import ORDER, TIME, column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.contract import TableContract


def declared_order(events: DataFrame, contract: TableContract) -> DataFrame:
    """Set ``_order`` and ``_time`` from the declared columns, else leave those that the source gave.

    Where neither gives a time, it is the first element of the order, whatever its type.

    Schema:
        events: + ``_order`` unless the contract declares it, + ``_time`` where the source has one.
        returns: + ``_order``, ``_time``.

    Returns:
        A lazy frame: calling this function starts no Spark job.
    """
    if contract.order_by:
        fields = [column(name).alias(name) for name in contract.order_by]
        events = events.withColumn(ORDER, F.struct(*fields))
    if contract.effective_time:
        return events.withColumn(TIME, column(contract.effective_time))
    if TIME in events.columns:
        return events
    first = events.schema[ORDER].dataType.fieldNames()[0]  # type: ignore[attr-defined]
    return events.withColumn(TIME, column(ORDER)[first])
