"""Whether the column search is still as good as it must be."""

from kedro_lakehouse.pipelines.column_eval.pipeline import create_pipeline

__all__ = ["create_pipeline"]
