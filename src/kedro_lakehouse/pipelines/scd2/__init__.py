"""Pending events become the history of each table."""

from kedro_lakehouse.pipelines.scd2.pipeline import create_pipeline

__all__ = ["create_pipeline"]
