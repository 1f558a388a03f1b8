"""Pipeline ``quality``: published tables are judged by their expectations."""

from kedro_lakehouse.pipelines.quality.pipeline import (
    create_data_docs_pipeline,
    create_pipeline,
    validated_tables,
)

__all__ = ["create_data_docs_pipeline", "create_pipeline", "validated_tables"]
