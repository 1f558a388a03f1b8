"""Pipeline ``cdc_merge``: one node for each table that keeps a current table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro.pipeline import Pipeline

from kedro_lakehouse.pipelines.quality import validated_tables
from kedro_lakehouse.pipelines.targets import target_node

if TYPE_CHECKING:
    from kedro_lakehouse.config.loading import Declarations


def create_pipeline(declarations: Declarations, *, all_awaited: bool = False) -> Pipeline:
    """The current tables take the batches that they do not have yet; each tells whom it is awaited by."""
    tables = declarations.tables.items()
    awaited = {read for _, t in tables if t.derive for read in t.derive.inputs.values()}
    awaited |= validated_tables(declarations)
    if all_awaited:
        awaited |= {str(name) for name, _ in tables}
    return Pipeline(
        [
            target_node(n, t, "current", verb="merge", pipeline="cdc_merge", awaited=str(n) in awaited)
            for n, t in tables
            if t.current
        ]
    )
