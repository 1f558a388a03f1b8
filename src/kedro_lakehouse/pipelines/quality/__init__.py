"""Pipeline ``quality``: published tables are judged by their expectations."""

from kedro_lakehouse.pipelines.quality.pipeline import create_pipeline, judged_tables

__all__ = ["create_pipeline", "judged_tables"]
