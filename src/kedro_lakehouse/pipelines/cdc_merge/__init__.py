"""Pending events become the current table of each table."""

from kedro_lakehouse.pipelines.cdc_merge.pipeline import create_pipeline

__all__ = ["create_pipeline"]
