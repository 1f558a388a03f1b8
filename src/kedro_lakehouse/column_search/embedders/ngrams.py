"""Hashed character trigrams: no meaning, no weights. For tests; never chosen unless it is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

import numpy as np

from kedro_lakehouse.column_search.embedders.base import unit_rows
from kedro_lakehouse.column_search.sketch import hashes_of
from kedro_lakehouse.column_search.words import trigrams

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray


class HashEmbedder:
    """Texts that share trigrams are near each other."""

    dimension: ClassVar[int] = 256
    model_id: ClassVar[str] = "hash"

    @classmethod
    def open(cls, argument: str, cache: Path) -> Self:  # noqa: ARG003 - there is nothing to open
        """Need nothing."""
        return cls()

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row a text: of unit length, or zero where it has no letter and no digit."""
        made = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for place, text in enumerate(texts):
            grams = sorted(trigrams(text))
            if grams:
                np.add.at(made[place], (hashes_of(grams) % self.dimension).astype(np.int64), 1.0)
        return unit_rows(made)
