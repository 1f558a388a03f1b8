"""Pipeline ``convert``: plain files become Iceberg tables, one node a table of convert.yml."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro.pipeline import Node, Pipeline

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kedro_lakehouse.names import TableName


def begin() -> bool:
    """Tell a table that it is its turn: which files it lacks is found when it is saved."""
    return True


def create_pipeline(tables: Iterable[TableName]) -> Pipeline:
    """A node for each table."""
    return Pipeline(
        [
            Node(
                begin,
                inputs=None,
                outputs=f"{name}.converted",
                name="convert",
                namespace=str(name),
                tags=["convert"],
            )
            for name in tables
        ]
    )
