"""All columns of one model's index in memory, as the arrays that scoring needs."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Final

import numpy as np

from kedro_lakehouse.column_search.embedders.base import unit_rows
from kedro_lakehouse.column_search.postings import Postings
from kedro_lakehouse.column_search.profile import NUMERIC, QUANTILES
from kedro_lakehouse.column_search.signature import ASPECTS, Aspect
from kedro_lakehouse.column_search.sketch import SKETCH_SIZE
from kedro_lakehouse.column_search.words import trigrams

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from kedro_lakehouse.column_search.profile import ColumnProfile
    from kedro_lakehouse.column_search.signature import ColumnSignature

LEAD: Final[Mapping[Aspect, float]] = {"name": 0.4, "signature": 0.4, "values": 0.2}
"""What the one vector is made of by which an index finds candidates."""
UNKNOWN, NUMBER, TIME, WORD = range(4)
_CLASSES: Final = dict.fromkeys(NUMERIC, NUMBER) | dict.fromkeys(("date", "timestamp", "time"), TIME)


def kind_class(profile: ColumnProfile) -> int:
    """What sort of values a column holds: numbers, times, words, or not known."""
    return UNKNOWN if profile.kind == "empty" else _CLASSES.get(profile.kind, WORD)


class ColumnCorpus:
    """The signatures of one model, row by row in the order that they were given in."""

    def __init__(self, signatures: Sequence[ColumnSignature], dimension: int) -> None:
        """Lay the vectors out; the rest is made when it is first needed."""
        self.signatures = list(signatures)
        self.profiles = [signature.profile for signature in self.signatures]
        self.dimension = dimension
        self.row_of = {signature.column_id: row for row, signature in enumerate(self.signatures)}
        self.vectors: dict[Aspect, NDArray[np.float32]] = {}
        for aspect in ASPECTS:
            self.vectors[aspect] = np.zeros((len(self), dimension), dtype=np.float32)
            for row, signature in enumerate(self.signatures):
                self.vectors[aspect][row] = signature.vectors.get(aspect, 0)

    def __len__(self) -> int:
        """The number of columns."""
        return len(self.signatures)

    @cached_property
    def lead(self) -> NDArray[np.float32]:
        """The vector of each column by which an index finds it."""
        return unit_rows(sum(np.float32(w) * self.vectors[a] for a, w in LEAD.items()))  # type: ignore[arg-type]

    @cached_property
    def has_values(self) -> NDArray[np.bool_]:
        """Whether anything is known of a column's values."""
        return np.array([bool(profile.sample) for profile in self.profiles], dtype=bool)

    @cached_property
    def kinds(self) -> NDArray[np.int64]:
        """The sort of each column's values."""
        return np.array([kind_class(profile) for profile in self.profiles], dtype=np.int64)

    @cached_property
    def quantiles(self) -> NDArray[np.float64]:
        """The quantiles of numeric columns; NaN elsewhere."""
        none = (np.nan,) * len(QUANTILES)
        return np.array([p.quantiles or none for p in self.profiles]).reshape(-1, len(QUANTILES))

    @cached_property
    def name_grams(self) -> Postings:
        """Trigrams of names."""
        return Postings.of_words(trigrams(profile.name) for profile in self.profiles)

    @cached_property
    def name_lengths(self) -> NDArray[np.float64]:
        """The length of each name's trigram vector."""
        return np.sqrt(self.name_grams.squared_lengths())

    @cached_property
    def value_tokens(self) -> Postings:
        """Words of values."""
        return Postings.of_words((token for token, _ in profile.tokens) for profile in self.profiles)

    @cached_property
    def sketches(self) -> Postings:
        """Hashes of values."""
        return Postings([np.array(profile.sketch, dtype=np.uint64) for profile in self.profiles])

    @cached_property
    def sketch_bounds(self) -> NDArray[np.uint64]:
        """Up to which hash each column's sketch knows all its values."""
        return np.array([sketch_bound(profile) for profile in self.profiles], dtype=np.uint64)

    @cached_property
    def format_shares(self) -> list[dict[str, float]]:
        """The shares of each column's formats."""
        return [dict(profile.formats) for profile in self.profiles]

    def rows_named(self, name: str) -> list[int]:
        """The rows of columns with exactly this name, in any case."""
        return self._by_name.get(name.strip().lower(), [])

    @cached_property
    def _by_name(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for row, profile in enumerate(self.profiles):
            found.setdefault(profile.name.lower(), []).append(row)
        return found


def sketch_bound(profile: ColumnProfile) -> int:
    """The largest hash that a profile's sketch would surely hold if the value were there."""
    return profile.sketch[-1] if len(profile.sketch) >= SKETCH_SIZE else 2**64 - 1
