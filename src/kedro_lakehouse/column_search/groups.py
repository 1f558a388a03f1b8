"""Groups of columns that mean the like, each named by words of its columns' names: what a map is read by."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from kedro_lakehouse.column_search.embedders.base import one_thread, unit_rows
from kedro_lakehouse.column_search.words import name_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

MOST_GROUPS: Final = 10
"""As many as there are colours that one can tell apart."""
_WORDS: Final = 3
_STARTS, _ROUNDS, _SAMPLE = 4, 50, 5_000


@dataclass(frozen=True, kw_only=True)
class ColumnGroups:
    """The group of each column, by number, and the name of each group; the largest group is the first."""

    numbers: NDArray[np.int64]
    names: Sequence[str]


def groups_of(vectors: NDArray[np.float32], columns: Sequence[str]) -> ColumnGroups:
    """Group columns by the directions of their vectors: k-means, which for the same vectors finds the same.

    Args:
        vectors: A unit row for each column.
        columns: The columns' names.

    Example:
        >>> vectors = np.eye(2, dtype=np.float32)[[0] * 8 + [1] * 4]
        >>> found = groups_of(vectors, ["zip_code"] * 8 + ["name"] * 4)
        >>> found.numbers.tolist(), found.names
        ([0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1], ['code, zip', 'name'])
    """
    if not len(vectors):
        return ColumnGroups(numbers=np.zeros(0, dtype=np.int64), names=[])
    most = min(MOST_GROUPS, max(1, round(np.sqrt(len(vectors)) / 2)))
    random = np.random.default_rng(0)
    sample = vectors[:: max(1, len(vectors) // _SAMPLE)]
    with one_thread():
        tried = [_k_means(sample, most, random) for _ in range(_STARTS)]
        centres, _ = max(tried, key=lambda one: one[1])
        numbers = (vectors @ centres.T).argmax(axis=1)
    sizes = np.bincount(numbers)
    order = [number for number in np.argsort(-sizes, kind="stable") if sizes[number]]
    renumbered = np.zeros(len(sizes), dtype=np.int64)
    renumbered[order] = np.arange(len(order))
    numbers = renumbered[numbers]
    return ColumnGroups(numbers=numbers, names=_names(numbers, columns, len(order)))


def _k_means(
    vectors: NDArray[np.float32], count: int, random: np.random.Generator
) -> tuple[NDArray[np.float32], float]:
    """So many centres, and how near the vectors are to the nearest of them in all."""
    centres = _first_centres(vectors, count, random)
    numbers = np.full(len(vectors), -1, dtype=np.int64)
    for _ in range(_ROUNDS):
        near = vectors @ centres.T
        nearest = near.argmax(axis=1)
        if np.array_equal(nearest, numbers):
            break
        numbers = nearest
        for number in np.unique(numbers):
            centres[number] = unit_rows(vectors[numbers == number].sum(axis=0, keepdims=True))[0]
    return centres, float((vectors @ centres.T).max(axis=1).sum())


def _first_centres(
    vectors: NDArray[np.float32], count: int, random: np.random.Generator
) -> NDArray[np.float32]:
    """So many of the vectors, each drawn the more likely the farther it is from those drawn before."""
    chosen = [int(random.integers(len(vectors)))]
    far = np.maximum(1 - vectors @ vectors[chosen[0]], 0).astype(np.float64)
    while len(chosen) < count and far.sum() > 0:
        chosen.append(int(random.choice(len(vectors), p=far / far.sum())))
        far = np.minimum(far, np.maximum(1 - vectors @ vectors[chosen[-1]], 0))
    return vectors[chosen].copy()


def _names(numbers: NDArray[np.int64], columns: Sequence[str], count: int) -> list[str]:
    """Each group's name: the words that many of its columns have, and few of the others."""
    words = [{word for word in name_words(column) if word.isalpha() and len(word) > 1} for column in columns]
    everywhere = Counter(word for one in words for word in one)
    names: list[str] = []
    for number in range(count):
        inside = Counter(word for row in np.flatnonzero(numbers == number) for word in words[row])
        best = sorted(inside, key=lambda word: (-(inside[word] ** 2) / everywhere[word], word))
        name = ", ".join(best[:_WORDS]) or "no words"
        names.append(name if name not in names else f"{name} ({number + 1})")
    return names
