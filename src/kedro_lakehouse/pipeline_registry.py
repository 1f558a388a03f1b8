"""The project's pipelines, made from the declared tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro.pipeline import Pipeline

from kedro_lakehouse.project import active_project

if TYPE_CHECKING:
    from kedro_lakehouse.project import Project


def register_tables(project: Project) -> dict[str, Pipeline]:
    """The pipelines of the declared tables, by name; another project adds them to its own registry."""
    from kedro_lakehouse.pipelines import cdc_merge, column_eval, column_index, ingestion, maintenance, scd2

    declarations = project.declarations
    indexed = project.column_index
    stages = {
        "ingestion": ingestion.create_pipeline(declarations),
        "cdc_merge": cdc_merge.create_pipeline(declarations, all_awaited=bool(indexed.models)),
        "scd2": scd2.create_pipeline(declarations),
        "column_index": column_index.create_pipeline(declarations, indexed),
    }
    others = {
        "maintenance": maintenance.create_pipeline(declarations),
        "column_eval": column_eval.create_pipeline(indexed),
    }
    return stages | others | {"__default__": sum(stages.values(), Pipeline([]))}


def register_pipelines() -> dict[str, Pipeline]:
    """Kedro's entry to the pipelines."""
    return register_tables(active_project())
