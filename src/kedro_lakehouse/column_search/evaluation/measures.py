"""Measures of ranked lists, as the published comparisons define them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray


def ranks(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """The rank of each entry in its row, from 1; of equal scores the earlier entry comes first."""
    order = np.argsort(-scores, axis=1, kind="stable")
    found = np.empty_like(order)
    np.put_along_axis(found, order, np.arange(1, scores.shape[1] + 1)[None].repeat(len(scores), 0), axis=1)
    return found


def mean_reciprocal_rank(scores: NDArray[np.float64], truth: AbstractSet[tuple[int, int]]) -> float:
    """The mean, over rows with a right answer, of 1 / rank of their best right answer."""
    placed = ranks(scores)
    best: dict[int, int] = {}
    for row, column in truth:
        rank = int(placed[row, column])
        best[row] = min(best.get(row, rank), rank)
    return float(np.mean([1 / rank for rank in best.values()]))


def recall_at_truth(scores: NDArray[np.float64], truth: AbstractSet[tuple[int, int]]) -> float:
    """The share of right pairs among the best pairs of the whole matrix, as many as there are right ones."""
    best = np.argsort(-scores.ravel(), kind="stable")[: len(truth)]
    pairs = {(int(place) // scores.shape[1], int(place) % scores.shape[1]) for place in best}
    return len(pairs & truth) / len(truth)


def recall_at(k: int, scores: NDArray[np.float64], truth: AbstractSet[tuple[int, int]]) -> float:
    """The share of right pairs whose column is among the best ``k`` of its row."""
    placed = ranks(scores)
    return sum(int(placed[row, column]) <= k for row, column in truth) / len(truth)


def precision_at(k: int, ranked: Sequence[str], right: Collection[str]) -> float:
    """The share of right ones among the first ``k``."""
    return sum(name in right for name in ranked[:k]) / k


def average_precision_at(k: int, ranked: Sequence[str], right: Collection[str]) -> float:
    """The mean precision at each right one of the first ``k``, over the right ones that fit into them."""
    hits, total = 0, 0.0
    for place, name in enumerate(ranked[:k], start=1):
        if name in right:
            hits += 1
            total += hits / place
    return total / min(k, len(right)) if right else 0.0
