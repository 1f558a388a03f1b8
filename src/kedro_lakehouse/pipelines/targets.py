"""One node a table that brings pending events to a target: the shape of ``cdc_merge`` and ``scd2``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro.pipeline import Node

from kedro_lakehouse.pipelines.nodes import select_pending

if TYPE_CHECKING:
    from kedro_lakehouse.changes.plan import Kind
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName


def target_node(name: TableName, table: TableConfig, kind: Kind, *, verb: str, pipeline: str) -> Node:
    """The node that keeps the current or history table of ``name`` up to date."""
    return Node(
        select_pending,
        inputs=[f"{name}.pending_{kind}", f"{name}.changes"],
        outputs=f"{name}.{kind}",
        name=verb,
        namespace=str(name),
        tags=[pipeline, *table.tags],
    )
