"""Pipeline ``maintenance``: one node for each table whose single events are kept for a time only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro.pipeline import Node, Pipeline

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kedro_lakehouse.config.loading import Declarations
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName


def keep_changes(changes: DataFrame) -> DataFrame:
    """Pass the record of changes on to its retention, whose save trims it."""
    return changes


def create_pipeline(declarations: Declarations) -> Pipeline:
    """The records of changes lose what is older than their tables' ``changes_retention``."""
    tables = declarations.tables.items()
    return Pipeline([_node(name, table) for name, table in tables if table.changes_retention])


def _node(name: TableName, table: TableConfig) -> Node:
    return Node(
        keep_changes,
        inputs=f"{name}.changes",
        outputs=f"{name}.retention",
        name="trim",
        namespace=str(name),
        tags=["maintenance", *table.tags],
    )
