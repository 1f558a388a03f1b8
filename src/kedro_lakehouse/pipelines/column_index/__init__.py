"""The columns of the lake, searchable by meaning."""

from kedro_lakehouse.pipelines.column_index.pipeline import create_pipeline

__all__ = ["create_pipeline"]
