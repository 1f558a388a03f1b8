"""Pipeline ``scd2``: one node for each table that keeps a history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro.pipeline import Pipeline

from kedro_lakehouse.pipelines.nodes import plan_versions
from kedro_lakehouse.pipelines.rules import bound, table_node

if TYPE_CHECKING:
    from kedro_lakehouse.config.loading import Declarations


def create_pipeline(declarations: Declarations) -> Pipeline:
    """The histories take the batches that they do not have yet, before others read them."""
    nodes = []
    for name, table in declarations.tables.items():
        if not table.history:
            continue
        read_as = [f"{name}.published"] if not table.current else []
        read_as += [f"{name}.published_history"] if str(name) in declarations.looked_up_by_time else []
        nodes.append(
            table_node(
                bound(plan_versions, readers=len(read_as)),
                name,
                table,
                "history",
                inputs=[f"{name}.changes"],
                outputs=[f"{name}.history", *read_as],
                verb="keep_history",
                pipeline="scd2",
            )
        )
    return Pipeline(nodes)
