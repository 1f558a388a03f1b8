"""Pipeline ``cdc_merge``: one node for each table that keeps a current table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro.pipeline import Node, Pipeline

from kedro_lakehouse.pipelines.nodes import plan_merge
from kedro_lakehouse.pipelines.rules import rules_of, with_contract

if TYPE_CHECKING:
    from kedro_lakehouse.config.loading import Declarations


def create_pipeline(declarations: Declarations) -> Pipeline:
    """The current tables take the batches that they do not have yet."""
    return Pipeline(
        [
            Node(
                with_contract(plan_merge, name, table),
                inputs=f"{name}.changes",
                outputs=[f"{name}.current", f"{name}.published"],
                name="merge",
                namespace=str(name),
                preview_fn=rules_of(name, table, "current"),
                tags=["cdc_merge", *table.tags],
            )
            for name, table in declarations.tables.items()
            if table.current
        ]
    )
