"""Pipeline ``scd2``: one node for each table that keeps its history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro.pipeline import Pipeline

from kedro_lakehouse.pipelines.targets import target_node

if TYPE_CHECKING:
    from kedro_lakehouse.config.loading import Declarations


def create_pipeline(declarations: Declarations) -> Pipeline:
    """The history tables take the batches that they do not have yet."""
    tables = declarations.tables.items()
    return Pipeline(
        [target_node(n, t, "history", verb="keep_history", pipeline="scd2") for n, t in tables if t.history]
    )
