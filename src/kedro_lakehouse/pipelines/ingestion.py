"""Pipeline ``ingestion``: one node a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro.pipeline import Pipeline

from kedro_lakehouse.pipelines.rules import table_node

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.contract import TableContract
    from kedro_lakehouse.commits.token import NothingLanded
    from kedro_lakehouse.config.loading import Declarations
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.ingestion.changes import LandedChanges
    from kedro_lakehouse.ingestion.extracts import LandedExtracts


def ingest(
    batches: Iterable[LandedChanges | LandedExtracts], *_tables: object, contract: TableContract
) -> Iterator[tuple[DataFrame | NothingLanded, DataFrame | NothingLanded]]:
    """Turn each landed batch into checked events, which go to quarantine or changes by their reasons.

    Batches read the inputs of a derived table, and references, at the snapshots that the ledger names, so
    that a batch that is made again is the same; here these tables only say that they are published.
    Kedro cannot take an empty stream of pairs: where nothing has landed, one pair says so.
    """
    from kedro_lakehouse.commits.token import NothingLanded

    nothing = True
    for batch in batches:
        nothing = False
        events = batch.events(contract)
        yield events, events
    if nothing:
        yield NothingLanded.HERE, NothingLanded.HERE


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
    """The inputs of a derived table and the references of an enriched one, as they are published."""
    read = [f"{name}.published" for name in (table.derive.inputs.values() if table.derive else ())]
    read += [f"{e.table}.published" + ("_history" if e.as_of == "event" else "") for e in table.enrich]
    return list(dict.fromkeys(read))
