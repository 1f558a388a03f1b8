"""Pipeline ``quality``: published tables are validated by their expectations."""

from kedro_lakehouse.pipelines.quality.pipeline import create_data_docs_pipeline, create_pipeline

__all__ = ["create_data_docs_pipeline", "create_pipeline"]
