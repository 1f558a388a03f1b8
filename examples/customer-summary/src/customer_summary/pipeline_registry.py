"""The pipelines of the tables, and the project's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro_lakehouse.pipeline_registry import register_with_own

if TYPE_CHECKING:
    from kedro.pipeline import Pipeline


def register_pipelines() -> dict[str, Pipeline]:
    """Kedro's entry to the pipelines."""
    return register_with_own()
