"""The current table (SCD1): one row per key, the fold of the key's events."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro_lakehouse.changes.events import OP, ORDER, UPSERT, column, columns, value_columns
from kedro_lakehouse.changes.fold import last_states

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.contract import TableContract


def current_rows(events: DataFrame, contract: TableContract, *, truncates: bool = True) -> DataFrame:
    """Fold events into the rows that exist after them.

    Schema:
        events: key and value columns + ``_op``, ``_order``, ``_time``, for some tables ``_unset``;
            ``truncates`` says whether any may be among them.
        returns: key and value columns + ``_order`` (of the last event); one row per key.

    Returns:
        A lazy frame: calling this function starts no Spark job.
    """
    last = last_states(events, contract, truncates=truncates).where(column(OP) == UPSERT)
    return last.select(*columns(value_columns(events)), column(ORDER))
