"""Two tables, column against column: one-to-one matches, and how far one can stand under the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kedro_lakehouse.columns.scorer import WEIGHTS, score_column

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from kedro_lakehouse.columns.corpus import ColumnCorpus
    from kedro_lakehouse.columns.scorer import Feature
    from kedro_lakehouse.columns.signature import ColumnSignature

TEMPERATURE: Final = 0.1


def score_matrix(
    queries: Sequence[ColumnSignature], corpus: ColumnCorpus, weights: Mapping[Feature, float] = WEIGHTS
) -> NDArray[np.float64]:
    """The score of every column of a corpus, a row for each query column."""
    rows = np.arange(len(corpus))
    return np.array([score_column(query, corpus, rows, weights).total for query in queries])


def one_to_one(scores: NDArray[np.float64], temperature: float = TEMPERATURE) -> NDArray[np.float64]:
    """Scores in which a pair counts as far as each of the two prefers the other: row by column softmax."""
    return _softmax(scores / temperature, axis=1) * _softmax(scores / temperature, axis=0)


def _softmax(scores: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    raised = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return np.asarray(raised / raised.sum(axis=axis, keepdims=True))
