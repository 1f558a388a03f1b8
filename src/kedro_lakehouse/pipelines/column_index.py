"""Pipeline ``column_index``: one node that brings the signatures of all columns up to date."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro.pipeline import Node, Pipeline

from kedro_lakehouse.names import OPS_NAMESPACE
from kedro_lakehouse.pipelines.rules import bound

if TYPE_CHECKING:
    from kedro_lakehouse.column_search.indexing import PendingIndex
    from kedro_lakehouse.column_search.store import SignatureChange
    from kedro_lakehouse.config.columns import ColumnIndexConfig
    from kedro_lakehouse.config.loading import Declarations


def index_columns(pending: PendingIndex, *_published: bool) -> SignatureChange:
    """Profile and embed the columns that changed; the merged tables are inputs for order only."""
    from kedro_lakehouse.column_search.indexing import change_index

    return change_index(pending)


def create_pipeline(declarations: Declarations, config: ColumnIndexConfig) -> Pipeline:
    """The column index follows the current tables; without a model there is none."""
    if not config.models:
        return Pipeline([])
    published = [f"{name}.published" for name, table in declarations.tables.items() if table.current]
    return Pipeline(
        [
            Node(
                bound(index_columns),
                inputs=["ops.column_tables", *published],
                outputs="ops.column_signatures",
                name="index_columns",
                namespace=OPS_NAMESPACE,
                # A table that fails does not keep the others from being found: see runners.ALWAYS.
                tags=["column_index", "always"],
            )
        ]
    )
