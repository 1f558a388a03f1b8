"""Pipeline ``ingestion``: one node a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro.pipeline import Pipeline

from kedro_lakehouse.pipelines.ingestion.nodes import ingest
from kedro_lakehouse.pipelines.rules import table_node

if TYPE_CHECKING:
    from kedro_lakehouse.config.loading import Declarations
    from kedro_lakehouse.config.tables import TableConfig


def create_pipeline(declarations: Declarations) -> Pipeline:
    """What is new in the landing folder of each table becomes accepted or quarantined events."""
    return Pipeline(
        [
            table_node(
                ingest,
                name,
                table,
                "changes",
                inputs=[f"{name}.landing", *_tables_read(table)],
                outputs=[f"{name}.quarantine", f"{name}.changes"],
                verb="ingest",
                pipeline="ingestion",
            )
            for name, table in declarations.tables.items()
        ]
    )


def _tables_read(table: TableConfig) -> list[str]:
    """The published tables that the query of a derived table reads."""
    return [f"{name}.published" for name in table.derive.inputs.values()] if table.derive else []
