"""Pipeline ``scd2``: one node for each table that keeps a history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro.pipeline import Pipeline

from kedro_lakehouse.pipelines.nodes import plan_only_versions, plan_versions
from kedro_lakehouse.pipelines.rules import table_node

if TYPE_CHECKING:
    from kedro_lakehouse.config.loading import Declarations


def create_pipeline(declarations: Declarations) -> Pipeline:
    """The histories take the batches that they do not have yet; readers see those without a current table."""
    return Pipeline(
        [
            table_node(
                plan_versions if table.current else plan_only_versions,
                name,
                table,
                "history",
                inputs=[f"{name}.changes"],
                outputs=f"{name}.history" if table.current else [f"{name}.history", f"{name}.published"],
                verb="keep_history",
                pipeline="scd2",
            )
            for name, table in declarations.tables.items()
            if table.history
        ]
    )
