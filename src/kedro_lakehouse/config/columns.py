"""The parameters of the column index."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import Field

from kedro_lakehouse.config.base import Declaration, Name, Names

PARAMETER: Final = "column_index"


class EvaluationThresholds(Declaration):
    """What the search must reach on the set that pipeline ``column_eval`` evaluates it by."""

    mrr: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Mean reciprocal rank."""
    recall_at_truth: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of right pairs among as many best ones."""
    recall_at_10: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of right columns among the first ten."""


class EvaluationConfig(Declaration):
    """What pipeline ``column_eval`` evaluates the search by."""

    path: Name
    """Folder of the set: target.csv, <study>/source.csv and groundtruth.csv."""
    thresholds: EvaluationThresholds = EvaluationThresholds()
    """What each measure must reach."""


class ColumnIndexConfig(Declaration):
    """The key ``column_index`` of parameters_column_index.yml."""

    models: Names = ()
    """Models that every column is indexed with, `embedder` or `embedder:argument`."""
    index: Name = "exact"
    """Vector index, `index` or `index:argument`."""
    paths: Names = ()
    """Files and folders outside the lake that are indexed too."""
    evaluation: EvaluationConfig | None = None
    """What `column_eval` evaluates the search by."""
