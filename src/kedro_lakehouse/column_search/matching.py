"""Two tables, column against column: one-to-one matches, and how far one can stand under the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kedro_lakehouse.column_search.scorer import WEIGHTS, score_column

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from kedro_lakehouse.column_search.corpus import ColumnCorpus
    from kedro_lakehouse.column_search.scorer import Feature
    from kedro_lakehouse.column_search.signature import ColumnSignature

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


def best_pairs(scores: NDArray[np.float64]) -> list[tuple[int, int]]:
    """One-to-one pairs of rows and columns, the best pair first, until one side is used up."""
    found: list[tuple[int, int]] = []
    rows, columns = set(range(scores.shape[0])), set(range(scores.shape[1]))
    for place in np.argsort(-scores, axis=None, kind="stable"):
        row, column = divmod(int(place), scores.shape[1])
        if row in rows and column in columns:
            found.append((row, column))
            rows.discard(row)
            columns.discard(column)
        if not rows or not columns:
            break
    return found


def unionability(scores: NDArray[np.float64]) -> tuple[float, list[tuple[int, int]]]:
    """How far two tables can stand under each other, from 0 to 1, and by which pairs of columns.

    Squares let a few sure pairs count for more than many vague ones; the root of both widths keeps a wide
    table from winning by its width.
    """
    pairs = best_pairs(scores)
    total = sum(max(float(scores[pair]), 0.0) ** 2 for pair in pairs)
    return total / float(np.sqrt(scores.shape[0] * scores.shape[1])), pairs
