"""From landed files to the record of changes and the quarantine."""

from kedro_lakehouse.pipelines.ingestion.pipeline import create_pipeline

__all__ = ["create_pipeline"]
