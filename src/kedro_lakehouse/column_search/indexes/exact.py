"""Every vector is compared: exact, in memory, quick up to some hundred thousand columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray

    from kedro_lakehouse.column_search.indexes.base import IndexSettings


class ExactIndex:
    """One matrix; a search is one product with a vector."""

    def __init__(self, dimension: int) -> None:
        """Start empty: the signature table itself is what lasts."""
        self._ids: list[str] = []
        self._vectors = np.empty((0, dimension), dtype=np.float32)
        self._state = ""

    @classmethod
    def open(cls, settings: IndexSettings) -> Self:
        """Start empty."""
        return cls(settings.dimension)

    @property
    def state(self) -> str:
        """The state that this process brought it to."""
        return self._state

    def upsert(self, ids: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Take vectors in, in the place of those of the same names."""
        self.delete(ids)
        self._ids += ids
        self._vectors = np.concatenate([self._vectors, vectors]) if len(self._vectors) else vectors

    def delete(self, ids: Collection[str]) -> None:
        """Leave vectors out."""
        rows_to_delete = set(ids)
        kept = [place for place, name in enumerate(self._ids) if name not in rows_to_delete]
        if len(kept) < len(self._ids):
            self._ids, self._vectors = [self._ids[place] for place in kept], self._vectors[kept]

    def ids(self) -> set[str]:
        """All names."""
        return set(self._ids)

    def mark(self, state: str) -> None:
        """Keep the state for this process."""
        self._state = state

    def nearest(self, vector: NDArray[np.float32], k: int) -> list[str]:
        """The nearest columns; of equal ones the earlier."""
        scores = self._vectors @ vector
        if k < len(scores):
            some = np.argpartition(-scores, k)[:k]
            order = some[np.lexsort((some, -scores[some]))]
        else:
            order = np.argsort(-scores, kind="stable")
        return [self._ids[place] for place in order]
