"""What is told of a column: counts, sample, formats, quantiles, sketch; of personal data only formats."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Final

import numpy as np

from kedro_lakehouse.column_search.personal import looks_personal
from kedro_lakehouse.column_search.values import format_of, kind_of_text, number_of
from kedro_lakehouse.column_search.words import value_words

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kedro_lakehouse.column_search.sketch import ColumnSketch

_FREQUENT: Final = 5
_SPREAD: Final = 5
_FORMATS: Final = 8
_TOKENS: Final = 64
_MIN_NUMBERS: Final = 3
_CLASSES: Final = 10
QUANTILES: Final = (0.05, 0.25, 0.5, 0.75, 0.95)
NUMERIC: Final = ("integer", "decimal")


@dataclass(frozen=True, kw_only=True)
class ColumnProfile:
    """One column as its values show it.

    Attributes:
        kind: integer, decimal, boolean, date, timestamp, time, text, binary, nested or empty; text of files
            counts as what it stands for.
        distinct: Number of distinct values, ignoring case: exact up to 255, then within some 6 percent.
        frequent: The most frequent values with their counts, the most frequent first.
        spread: Other values, drawn evenly from the distinct ones.
        quantiles: Of numbers, at 5, 25, 50, 75 and 95 percent.
        histogram: Of numbers, the shares of ten classes of equal width from minimum to maximum.
        formats: Character-class formats with their shares of the values.
        tokens: Words of the values with their shares of the distinct values.
        sketch: The up to 256 smallest hashes of the distinct values, ascending.
        personal: Whether the column holds personal data: then nothing of its values is here but formats.
    """

    name: str
    kind: str
    rows: int
    nulls: int
    distinct: int
    mean_length: float = 0.0
    max_length: int = 0
    minimum: str | None = None
    maximum: str | None = None
    frequent: tuple[tuple[str, int], ...] = ()
    spread: tuple[str, ...] = ()
    quantiles: tuple[float, ...] = ()
    histogram: tuple[float, ...] = ()
    formats: tuple[tuple[str, float], ...] = ()
    tokens: tuple[tuple[str, float], ...] = ()
    sketch: tuple[int, ...] = ()
    personal: bool = False

    @property
    def sample(self) -> tuple[str, ...]:
        """At most ten values."""
        return tuple(text for text, _ in self.frequent) + self.spread

    @property
    def null_fraction(self) -> float:
        """The share of rows without a value."""
        return self.nulls / self.rows if self.rows else 0.0

    @property
    def distinctness(self) -> float:
        """Distinct values to values, at most 1: a key has 1."""
        return min(1.0, self.distinct / (self.rows - self.nulls)) if self.rows > self.nulls else 0.0


def profile_column(name: str, sketch: ColumnSketch, *, table: str, personal: bool | None) -> ColumnProfile:
    """Profile a column from its sketch.

    Args:
        name: The column's name.
        sketch: Of all its values.
        table: The table's name, which may tell of people.
        personal: Whether a declaration says that the column holds personal data; None where none speaks.
    """
    texts = [text for text, _ in sketch.sample.values()]
    weights = [count for _, count in sketch.sample.values()]
    kind = kind_of_text(texts) if sketch.kind in ("text", "empty") else sketch.kind
    private = looks_personal(name, table, texts) if personal is None else personal
    known = ColumnProfile(
        name=name,
        kind=kind,
        rows=sketch.rows,
        nulls=sketch.nulls,
        distinct=sketch.distinct,
        formats=_formats(texts, weights),
        personal=private,
    )
    if private:
        return known
    numbers = [n for n in map(number_of, texts) if n is not None] if kind in NUMERIC else []
    all_numbers = len(numbers) == len(texts)
    frequent = _frequent(sketch)
    least, greatest = _ends(sketch, kind)
    return replace(
        known,
        mean_length=float(np.average([len(t) for t in texts], weights=weights)) if texts else 0.0,
        max_length=max(map(len, texts), default=0),
        minimum=least,
        maximum=greatest,
        frequent=frequent,
        spread=_spread(sketch, {text.casefold() for text, _ in frequent}),
        quantiles=_quantiles(numbers, weights) if all_numbers else (),
        histogram=_histogram(numbers, weights, least, greatest) if all_numbers else (),
        tokens=_tokens(texts) if kind in ("text", "nested") else (),
        sketch=tuple(sorted(sketch.sample)),
    )


def profile_table(
    sketches: Mapping[str, ColumnSketch], *, table: str, personal: frozenset[str] | None = None
) -> list[ColumnProfile]:
    """Profile every column of a table; ``personal`` are the columns that were declared to be so."""
    declared = {name.lower() for name in personal or ()}
    return [
        profile_column(name, sketch, table=table, personal=True if name.lower() in declared else None)
        for name, sketch in sketches.items()
    ]


def _frequent(sketch: ColumnSketch) -> tuple[tuple[str, int], ...]:
    folded: Counter[str] = Counter()
    spelling: dict[str, str] = {}
    for text, count in sketch.heavy.items():
        key = text.casefold()
        folded[key] += count
        spelling[key] = min(text, spelling.get(key, text))
    ranked = sorted(folded.items(), key=lambda entry: (-entry[1], entry[0]))[:_FREQUENT]
    return tuple((spelling[key], count) for key, count in ranked)


def _spread(sketch: ColumnSketch, taken: set[str]) -> tuple[str, ...]:
    others = (text for _, (text, _) in sorted(sketch.sample.items()) if text.casefold() not in taken)
    return tuple(islice(others, _SPREAD))


def _ends(sketch: ColumnSketch, kind: str) -> tuple[str | None, str | None]:
    if sketch.minimum is not None or kind not in ("date", "timestamp", *NUMERIC):
        return sketch.minimum, sketch.maximum
    texts = [text for text, _ in sketch.sample.values()]
    ranked = sorted(texts, key=(lambda t: number_of(t) or 0.0) if kind in NUMERIC else str)
    return (ranked[0], ranked[-1]) if ranked else (None, None)


def _formats(texts: list[str], weights: list[int]) -> tuple[tuple[str, float], ...]:
    counts: Counter[str] = Counter()
    for text, weight in zip(texts, weights, strict=True):
        counts[format_of(text)] += weight
    total = sum(weights)
    return tuple((name, round(count / total, 4)) for name, count in counts.most_common(_FORMATS))


def _tokens(texts: list[str]) -> tuple[tuple[str, float], ...]:
    counts = Counter(word for text in texts for word in set(value_words(text)))
    ranked = sorted(counts.items(), key=lambda entry: (-entry[1], entry[0]))[:_TOKENS]
    return tuple((word, round(count / len(texts), 4)) for word, count in ranked)


def _quantiles(numbers: list[float], weights: list[int]) -> tuple[float, ...]:
    finite = [(n, w) for n, w in zip(numbers, weights, strict=True) if math.isfinite(n)]
    if len(finite) < _MIN_NUMBERS:
        return ()
    finite.sort()
    reached = np.cumsum([w for _, w in finite]) / sum(w for _, w in finite)
    places = np.searchsorted(reached, QUANTILES)
    return tuple(finite[min(int(place), len(finite) - 1)][0] for place in places)


def _histogram(
    numbers: list[float], weights: list[int], least: str | None, greatest: str | None
) -> tuple[float, ...]:
    ends = number_of(least or ""), number_of(greatest or "")
    if ends[0] is None or ends[1] is None or not math.isfinite(ends[1] - ends[0]):
        return ()
    counts, _ = np.histogram(numbers, bins=_CLASSES, range=(ends[0], ends[1]), weights=weights)
    total = counts.sum()
    return tuple(round(float(count / total), 4) for count in counts) if total else ()
