"""Pipeline ``column_eval``: match the bundled studies and hold the result against the thresholds."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kedro.pipeline import Node, Pipeline

from kedro_lakehouse.errors import SearchBelowThresholdError
from kedro_lakehouse.names import OPS_NAMESPACE
from kedro_lakehouse.pipelines.rules import bound

if TYPE_CHECKING:
    from kedro_lakehouse.column_search.evaluation import Evaluation, MatchingMeasures
    from kedro_lakehouse.config.columns import ColumnIndexConfig, EvaluationThresholds

logger = logging.getLogger(__name__)


def match_studies(evaluation: Evaluation) -> dict[str, dict[str, MatchingMeasures]]:
    """Match the columns of every study by every model; the measures by model and study."""
    from kedro_lakehouse.column_search.evaluation import evaluate_studies

    return {e.model_id: evaluate_studies(evaluation.studies, e) for e in evaluation.embedders}


def judge_search(
    measured: dict[str, dict[str, MatchingMeasures]], *, thresholds: EvaluationThresholds
) -> dict[str, dict[str, float]]:
    """Take the mean of every model's studies; each must reach every threshold.

    Raises:
        SearchBelowThresholdError: A measure of a model is lower.
    """
    means, missed = {}, []
    for model, studies in measured.items():
        found = {
            name: sum(getattr(one, name) for one in studies.values()) / len(studies)
            for name in thresholds.allowed_keys()
        }
        means[model] = found
        measures = ", ".join(f"{name} {value:.3f}" for name, value in found.items())
        logger.info("column_eval: %s, %s studies: %s", model, len(studies), measures)
        for name, value in found.items():
            least = float(getattr(thresholds, name))
            if value < least:
                missed.append(f"{model} {name} {value:.3f} < {least:g}")
    if missed:
        raise SearchBelowThresholdError(measures=missed)
    return means


def create_pipeline(config: ColumnIndexConfig) -> Pipeline:
    """Evaluate every model of the index; without models, or without studies, there is nothing."""
    if not config.models or config.evaluation is None:
        return Pipeline([])
    return Pipeline(
        [
            Node(
                bound(match_studies),
                inputs="ops.column_studies",
                outputs="ops.study_measures",
                name="match_studies",
                namespace=OPS_NAMESPACE,
                tags=["column_eval"],
            ),
            Node(
                bound(judge_search, thresholds=config.evaluation.thresholds),
                inputs="ops.study_measures",
                outputs="ops.column_measures",
                name="judge_search",
                namespace=OPS_NAMESPACE,
                tags=["column_eval"],
            ),
        ]
    )
