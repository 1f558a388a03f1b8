"""Upkeep of tables: what is not part of a daily run."""

from kedro_lakehouse.pipelines.maintenance.pipeline import create_pipeline

__all__ = ["create_pipeline"]
