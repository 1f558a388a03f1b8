"""Pipeline ``cdc_merge``: one node for each table that keeps a current table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro.pipeline import Pipeline

from kedro_lakehouse.pipelines.nodes import plan_merge
from kedro_lakehouse.pipelines.rules import table_node

if TYPE_CHECKING:
    from kedro_lakehouse.config.loading import Declarations


def create_pipeline(declarations: Declarations) -> Pipeline:
    """The current tables take the batches that they do not have yet."""
    return Pipeline(
        [
            table_node(
                plan_merge,
                name,
                table,
                "current",
                inputs=[f"{name}.changes"],
                outputs=[f"{name}.current", f"{name}.published"],
                verb="merge",
                pipeline="cdc_merge",
            )
            for name, table in declarations.tables.items()
            if table.current
        ]
    )
