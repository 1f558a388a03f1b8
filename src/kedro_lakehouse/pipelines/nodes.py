"""Nodes that several pipelines share."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def select_pending(pending: DataFrame, _changes: DataFrame) -> DataFrame:
    """Pass the pending events of a table on to its target, whose save plans and commits them.

    The record of changes is an input for order only: ingestion comes first.
    """
    return pending


def select_pending_and_tell(pending: DataFrame, changes: DataFrame) -> tuple[DataFrame, bool]:
    """Pass the pending events on; the second output is there only when the first one is committed."""
    return select_pending(pending, changes), True
