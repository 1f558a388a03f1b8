"""Pipeline ``convert``: plain files become Iceberg tables, one node a table of convert.yml."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro.pipeline import Node, Pipeline

from kedro_lakehouse.pipelines.rules import bound

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kedro_lakehouse.config.convert import ConvertConfig
    from kedro_lakehouse.names import TableName


def plan_conversion(*, declared: ConvertConfig) -> ConvertConfig:
    """Plan a table of all files that a declaration names; those that it lacks are found by the commit."""
    return declared


def create_pipeline(tables: Mapping[TableName, ConvertConfig]) -> Pipeline:
    """A node for each table."""
    return Pipeline(
        [
            Node(
                bound(plan_conversion, declared=declared),
                inputs=None,
                outputs=f"{name}.converted",
                name="convert",
                namespace=str(name),
                tags=["convert"],
            )
            for name, declared in tables.items()
        ]
    )
