"""Pipeline ``convert``."""

from kedro_lakehouse.pipelines.convert.pipeline import create_pipeline

__all__ = ["create_pipeline"]
