"""One node a table that brings pending events to a target: the shape of ``cdc_merge`` and ``scd2``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro.pipeline import Node

from kedro_lakehouse.pipelines.nodes import select_pending, select_pending_and_tell
from kedro_lakehouse.pipelines.pictures import picture_of

if TYPE_CHECKING:
    from kedro_lakehouse.changes.plan import Kind
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName


def target_node(  # noqa: PLR0913 - a node's parts
    name: TableName, table: TableConfig, kind: Kind, *, verb: str, pipeline: str, awaited: bool = False
) -> Node:
    """The node that keeps the current or history table of ``name`` up to date.

    Where derived tables or quality wait for it, it has an output that tells them so: they must be able to
    start although the table holds nothing yet, when its own dataset cannot be loaded.
    """
    target = f"{name}.{kind}"
    return Node(
        select_pending_and_tell if awaited else select_pending,
        inputs=[f"{name}.pending_{kind}", f"{name}.changes"],
        outputs=[target, f"{name}.published"] if awaited else target,
        name=verb,
        namespace=str(name),
        preview_fn=picture_of(name, table, kind),
        tags=[pipeline, *table.tags],
    )
