"""The contract suite for embedders."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import pytest

from kedro_lakehouse.column_search.embedders.base import Embedder

if TYPE_CHECKING:
    from numpy.typing import NDArray

TEXTS: Final = ("city of birth", "zip code", "city", "price 12.50", "City", "zip code")


class EmbedderContract:
    """What must be true of every embedder; a subclass provides its own in the fixture ``embedder``.

    A model with a fixed vocabulary must know at least the words of ``TEXTS``.

    Example:
        >>> class TestMine(EmbedderContract):  # doctest: +SKIP
        ...     @pytest.fixture
        ...     def embedder(self):
        ...         return Mine.open("", Path())
    """

    @pytest.fixture
    def embedder(self) -> Embedder:
        """The embedder under test."""
        raise NotImplementedError

    def test_every_text_has_one_unit_row_in_its_place(self, embedder: Embedder) -> None:
        assert isinstance(embedder, Embedder)
        found = embedder.embed(TEXTS)
        assert found.shape == (len(TEXTS), embedder.dimension)
        assert found.dtype == np.float32
        assert _lengths(found) == pytest.approx(np.ones(len(TEXTS)), abs=1e-5)
        assert np.array_equal(found[1], found[5])
        alone = np.concatenate([embedder.embed([text]) for text in TEXTS])
        assert np.abs(alone - found).max() < 1e-5

    def test_case_does_not_matter_and_likeness_does(self, embedder: Embedder) -> None:
        city_of_birth, zip_code, city, *_ = embedder.embed(TEXTS)
        assert embedder.embed(["CITY"])[0] == pytest.approx(city, abs=1e-6)
        assert city_of_birth @ city > zip_code @ city

    def test_nothing_to_embed_and_nothing_known_are_no_error(self, embedder: Embedder) -> None:
        assert embedder.embed([]).shape == (0, embedder.dimension)
        assert np.isfinite(embedder.embed(["", "\u202e\x00", "☃", "x" * 5000])).all()

    def test_the_model_has_a_name_to_keep_its_vectors_under(self, embedder: Embedder) -> None:
        assert embedder.model_id.strip() == embedder.model_id != ""


def _lengths(vectors: NDArray[np.float32]) -> NDArray[np.floating]:
    return np.asarray(np.linalg.norm(vectors, axis=1))
