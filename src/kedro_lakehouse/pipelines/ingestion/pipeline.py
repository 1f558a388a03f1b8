"""Pipeline ``ingestion``: one node a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro.pipeline import Node, Pipeline

from kedro_lakehouse.pipelines.ingestion.nodes import ingest
from kedro_lakehouse.pipelines.rules import rules_of, with_contract

if TYPE_CHECKING:
    from kedro_lakehouse.config.loading import Declarations
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName


def create_pipeline(declarations: Declarations) -> Pipeline:
    """What is new in the landing folder of each table becomes accepted or quarantined events."""
    return Pipeline([_node(name, table) for name, table in declarations.tables.items()])


def _node(name: TableName, table: TableConfig) -> Node:
    return Node(
        with_contract(ingest, name, table),
        inputs=[f"{name}.landing", *_tables_read(table)],
        outputs=[f"{name}.quarantine", f"{name}.changes"],
        name="ingest",
        namespace=str(name),
        preview_fn=rules_of(name, table, "changes"),
        tags=["ingestion", *table.tags],
    )


def _tables_read(table: TableConfig) -> list[str]:
    """The published tables that the query of a derived table reads."""
    return [f"{name}.published" for name in table.derive.inputs.values()] if table.derive else []
