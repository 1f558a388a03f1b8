"""Which columns hold which terms: an inverted index in three arrays, summed up without loops."""

from __future__ import annotations

from hashlib import blake2b
from typing import TYPE_CHECKING, Final, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

_REMEMBERED: Final = 8


class Postings:
    """The rows of each term, terms being 64-bit hashes."""

    def __init__(self, bags: Sequence[NDArray[np.uint64]]) -> None:
        """Index bags of distinct terms, one a row."""
        self.rows = len(bags)
        self._last: dict[tuple[bytes, bytes], NDArray[np.float64]] = {}
        self.sizes = np.array([len(bag) for bag in bags], dtype=np.int64)
        terms = np.concatenate(bags) if bags else np.empty(0, dtype=np.uint64)
        owners = np.repeat(np.arange(self.rows), self.sizes)
        order = np.argsort(terms, kind="stable")
        self._owners = owners[order]
        self._terms, self._starts = np.unique(terms[order], return_index=True)
        self._ends = np.append(self._starts[1:], len(terms))
        self.frequency = self._ends - self._starts

    @classmethod
    def of_words(cls, bags: Iterable[Iterable[str]]) -> Self:
        """Index bags of words."""
        return cls([word_terms(bag) for bag in bags])

    def rarity(self, terms: NDArray[np.uint64]) -> NDArray[np.float64]:
        """How much each term tells: log(1 + rows / rows with it); a term that none has tells most."""
        place, known = self._find(terms)
        held = np.ones(len(terms))
        held[known] = self.frequency[place[known]]
        return np.log1p(self.rows / held)

    def sums(self, terms: NDArray[np.uint64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """For each row the sum of the weights of those terms that it holds; do not change the result.

        The last results are kept: a search asks the same for its candidates and for their scores.
        """
        asked = (terms.tobytes(), weights.tobytes())
        if asked not in self._last:
            while len(self._last) >= _REMEMBERED:
                self._last.pop(next(iter(self._last)), None)
            self._last[asked] = self._sum(terms, weights)
        return self._last[asked]

    def _sum(self, terms: NDArray[np.uint64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        place, known = self._find(terms)
        if not known.any():
            return np.zeros(self.rows)
        lengths = self.frequency[place[known]]
        owners = np.concatenate([self._owners[self._starts[p] : self._ends[p]] for p in place[known]])
        return np.bincount(owners, np.repeat(weights[known], lengths), minlength=self.rows).astype(np.float64)

    def squared_lengths(self) -> NDArray[np.float64]:
        """For each row the sum of its terms' squared rarities."""
        weights = np.square(np.log1p(self.rows / self.frequency)) if self.rows else np.empty(0)
        repeated = np.repeat(weights, self.frequency)
        return np.bincount(self._owners, repeated, minlength=self.rows).astype(np.float64)

    def _find(self, terms: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        place = np.searchsorted(self._terms, terms)
        inside = place < len(self._terms)
        known = np.zeros(len(terms), dtype=bool)
        known[inside] = self._terms[place[inside]] == terms[inside]
        return place, known


def word_terms(words: Iterable[str]) -> NDArray[np.uint64]:
    """The terms of distinct words, upper and lower case alike."""
    distinct = sorted(set(words))
    digests = b"".join(blake2b(word.casefold().encode(), digest_size=8).digest() for word in distinct)
    return np.frombuffer(digests, dtype=np.uint64)
