"""Pipeline ``scd2``: one node for each table that keeps its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro.pipeline import Pipeline

from kedro_lakehouse.pipelines.quality import validated_tables
from kedro_lakehouse.pipelines.targets import target_node

if TYPE_CHECKING:
    from kedro_lakehouse.config.loading import Declarations


def create_pipeline(declarations: Declarations) -> Pipeline:
    """The history tables take the batches that they do not have yet."""
    tables = declarations.tables.items()
    # Where there is no current table, the history tells that the table is published.
    awaited = validated_tables(declarations) & {str(n) for n, t in tables if not t.current}
    return Pipeline(
        [
            target_node(n, t, "history", verb="keep_history", pipeline="scd2", awaited=str(n) in awaited)
            for n, t in tables
            if t.history
        ]
    )
