"""The project's pipelines, made from the declared tables."""

from __future__ import annotations

import re
import warnings
from typing import TYPE_CHECKING

from kedro.pipeline import Pipeline

from kedro_lakehouse.project import activate, active_project

if TYPE_CHECKING:
    from kedro_lakehouse.project import Project


def register_tables(project: Project | None = None) -> dict[str, Pipeline]:
    """The pipelines of the declared tables, by name; another project adds them to its own registry.

    ``__default__`` is what runs every day: ingestion, cdc_merge, scd2, quality and column_index. Where no
    hook has told which project runs (``kedro viz`` calls none), it is the one around the working folder, also
    for the datasets.
    """
    # Nodes across tables take inputs of other namespaces: the dots are the fixed interface.
    warnings.filterwarnings(
        "ignore", message="One or more dataset names contain '.' characters", category=UserWarning
    )
    from kedro_lakehouse.pipelines import (
        cdc_merge,
        column_eval,
        column_index,
        convert,
        discovery,
        erasure,
        ingestion,
        maintenance,
        quality,
        scd2,
    )

    found = project or activate(active_project())
    declarations, indexed = found.declarations, found.column_index
    stages = {
        "ingestion": ingestion.create_pipeline(declarations),
        "cdc_merge": cdc_merge.create_pipeline(declarations),
        "scd2": scd2.create_pipeline(declarations),
        "quality": quality.create_pipeline(declarations),
        "column_index": column_index.create_pipeline(declarations, indexed),
    }
    others = {
        "maintenance": maintenance.create_pipeline(found),
        "erasure": erasure.create_pipeline(declarations),
        "convert": convert.create_pipeline(found.conversions),
        "data_docs": quality.create_data_docs_pipeline(),
        "column_eval": column_eval.create_pipeline(indexed),
        "discovery": discovery.create_pipeline(),
    }
    return stages | others | {"__default__": sum(stages.values(), Pipeline([]))}


def register_with_own() -> dict[str, Pipeline]:
    """The pipelines of the declared tables and a project's own, as Kedro finds these; both run by default.

    Kedro's ``find_pipelines`` looks for every name that a run asks for in the project's own package, also for
    ``maintenance`` and the like, and warns that it is not there.
    """
    from kedro.framework.project import find_pipelines

    tables = register_tables()
    with warnings.catch_warnings():
        ours = "|".join(map(re.escape, tables))
        warnings.filterwarnings("ignore", rf".*\.pipelines\.({ours})' module\. Nothing defined", UserWarning)
        warnings.filterwarnings("ignore", rf"Pipeline\(s\) not found: ({ours})$", UserWarning)
        own = find_pipelines()
    return tables | own | {"__default__": sum(own.values(), start=tables["__default__"])}


def register_pipelines() -> dict[str, Pipeline]:
    """Kedro's entry to the pipelines."""
    return register_tables()
