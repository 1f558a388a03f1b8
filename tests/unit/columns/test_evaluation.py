"""What pipeline ``column_eval`` makes of measures."""

import pytest

from kedro_lakehouse.column_search.evaluation import MatchingMeasures
from kedro_lakehouse.config.columns import EvaluationThresholds
from kedro_lakehouse.errors import SearchBelowThresholdError
from kedro_lakehouse.pipelines.column_eval import judge_search

pytestmark = pytest.mark.unit

MEASURED = {
    "m": {
        "a": MatchingMeasures(mrr=0.9, recall_at_truth=0.5, recall_at_10=1.0),
        "b": MatchingMeasures(mrr=0.7, recall_at_truth=0.7, recall_at_10=0.8),
    }
}


def test_the_mean_of_the_studies_is_what_counts():
    least = EvaluationThresholds(mrr=0.8, recall_at_truth=0.6, recall_at_10=0.9)
    found = judge_search(MEASURED, thresholds=least)["m"]
    assert found == pytest.approx({"mrr": 0.8, "recall_at_truth": 0.6, "recall_at_10": 0.9})


def test_a_missed_threshold_is_told_with_model_and_measure():
    with pytest.raises(SearchBelowThresholdError, match=r"m mrr 0\.800 < 0\.85"):
        judge_search(MEASURED, thresholds=EvaluationThresholds(mrr=0.85, recall_at_10=0.9))
