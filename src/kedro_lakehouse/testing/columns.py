"""The contract suite for vector indexes of the column search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from kedro_lakehouse.column_search.embedders.base import unit_rows
from kedro_lakehouse.column_search.indexes.base import IndexSettings, VectorIndex

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

DIMENSION: Final = 16
VECTORS: Final = unit_rows(np.random.default_rng(2).normal(size=(60, DIMENSION)))
IDS: Final = [f"ns.t.c{number}" for number in range(59)] + ["ns.t.\"odd' name"]


class VectorIndexContract:
    """What must be true of every vector index; a subclass opens its own in ``opened``."""

    def opened(self, settings: IndexSettings) -> VectorIndex:
        """Open the index under test, anew in the folder of the settings."""
        raise NotImplementedError

    @pytest.fixture
    def index(self, tmp_path: Path) -> VectorIndex:
        """An empty index of vectors of 16 numbers."""
        folder = str(tmp_path / "index")
        return self.opened(
            IndexSettings(argument="", model_id="glove:tiny/x", dimension=DIMENSION, folder=folder)
        )

    def test_the_nearest_are_those_of_the_greatest_cosine(self, index: VectorIndex) -> None:
        assert isinstance(index, VectorIndex)
        index.upsert(IDS, VECTORS)
        for vector in VECTORS[:5]:
            assert index.nearest(vector, 10) == _nearest(vector, 10)
        assert len(index.nearest(VECTORS[0], 1000)) == len(IDS)

    def test_an_upsert_replaces_and_repeating_it_changes_nothing(self, index: VectorIndex) -> None:
        index.upsert(IDS, VECTORS)
        index.upsert(IDS[:30], VECTORS[30:])
        index.upsert(IDS[:30], VECTORS[30:])
        assert index.ids() == set(IDS)
        assert set(index.nearest(VECTORS[30], 2)) == {IDS[0], IDS[30]}

    def test_deleted_columns_are_not_found(self, index: VectorIndex) -> None:
        index.upsert(IDS, VECTORS)
        index.delete({IDS[0], IDS[-1], "ns.t.unknown"})
        assert index.ids() == set(IDS[1:-1])
        assert IDS[0] not in index.nearest(VECTORS[0], 60)

    def test_an_index_knows_the_state_that_it_is_at(self, index: VectorIndex) -> None:
        assert index.state == ""
        index.mark("41")
        index.mark("42")
        assert index.state == "42"

    def test_an_empty_index_finds_nothing(self, index: VectorIndex) -> None:
        assert index.nearest(VECTORS[0], 5) == []


def _nearest(vector: NDArray[np.float32], k: int) -> list[str]:
    return [IDS[place] for place in np.argsort(-(VECTORS @ vector), kind="stable")[:k]]
