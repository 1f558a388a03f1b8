"""Pipeline ``ingestion``: one node a table."""

from __future__ import annotations

from functools import partial, update_wrapper
from typing import TYPE_CHECKING

from kedro.pipeline import Node, Pipeline

from kedro_lakehouse.changes.contract import TableContract
from kedro_lakehouse.pipelines.ingestion.nodes import ingest
from kedro_lakehouse.pipelines.pictures import picture_of

if TYPE_CHECKING:
    from kedro_lakehouse.config.loading import Declarations
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName


def create_pipeline(declarations: Declarations) -> Pipeline:
    """What is new in the landing folder of each table becomes accepted or quarantined events."""
    return Pipeline([_node(name, table) for name, table in declarations.tables.items()])


def _node(name: TableName, table: TableConfig) -> Node:
    return Node(
        update_wrapper(partial(ingest, contract=TableContract.of(name, table)), ingest),
        inputs=[f"{name}.landing", *_awaited(table)],
        outputs=[f"{name}.quarantine", f"{name}.changes"],
        name="ingest",
        namespace=str(name),
        preview_fn=picture_of(name, table, "changes"),
        tags=["ingestion", *table.tags],
    )


def _awaited(table: TableConfig) -> list[str]:
    """What must have been merged before a derived table is made: inputs for order only."""
    return [f"{table_read}.published" for table_read in table.derive.inputs.values()] if table.derive else []
