"""One scorer for every search: what two columns have in common, feature by feature, and what it is worth."""

from __future__ import annotations

from collections.abc import Mapping  # noqa: TC003 - the weights' type
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, get_args

import numpy as np

from kedro_lakehouse.column_search.corpus import UNKNOWN, kind_class, sketch_bound
from kedro_lakehouse.column_search.postings import word_terms
from kedro_lakehouse.column_search.results import Mode  # noqa: TC001 - a mapping's type at run time
from kedro_lakehouse.column_search.words import trigrams

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from kedro_lakehouse.column_search.corpus import ColumnCorpus
    from kedro_lakehouse.column_search.signature import ColumnSignature

    Numbers = NDArray[np.float64]
    Rows = NDArray[np.int64]

Feature = Literal[
    "name", "signature", "trigrams", "values", "tokens", "containment", "formats", "numbers", "kind"
]
FEATURES: Final[tuple[Feature, ...]] = get_args(Feature)

WEIGHTS: Final[Mapping[Feature, float]] = {
    "name": 0.16,
    "signature": 0.20,
    "trigrams": 0.16,
    "values": 0.16,
    "tokens": 0.12,
    "containment": 0.08,
    "formats": 0.04,
    "numbers": 0.04,
    "kind": 0.04,
}
"""Fixed on the development data (docs/columns.md); they sum to 1."""
MODES: Final[Mapping[Mode, Mapping[Feature, float]]] = {
    "name": {"name": 1.0},
    "content": {"values": 1.0},
    "both": {"signature": 1.0},
    "hybrid": WEIGHTS,
}
TEXT_WEIGHTS: Final[Mapping[Mode, Mapping[str, float]]] = {
    "name": {"name": 1.0},
    "content": {"values": 1.0},
    "both": {"signature": 1.0},
    "hybrid": {"name": 0.4, "context": 0.4, "trigrams": 0.2},
}
_NEUTRAL: Final = 0.25
"""Two columns of which one has no known value are taken to be as near in values as unrelated ones."""
_EXACT_BONUS: Final = 1.0
"""A word that is exactly a column's name comes before everything that is merely near it."""
_TEMPERATURE: Final = 0.1


@dataclass(frozen=True)
class Scores:
    """Scores of some rows of a corpus, and what each feature added to them."""

    rows: Rows
    total: Numbers
    shares: Mapping[str, Numbers]

    def top(self, k: int) -> Rows:
        """The places of the best ``k`` rows; equal scores keep the corpus's order."""
        return np.argsort(-self.total, kind="stable")[:k]


def score_column(
    query: ColumnSignature, corpus: ColumnCorpus, rows: Rows, weights: Mapping[Feature, float] = WEIGHTS
) -> Scores:
    """Score rows of a corpus by how alike they are to a column; each feature lies between 0 and 1."""
    shares: dict[str, Numbers] = {
        feature: weight * _FEATURES[feature](query, corpus, rows)
        for feature, weight in weights.items()
        if weight
    }
    return Scores(rows, np.sum(list(shares.values()), axis=0), shares)


def score_text(
    vector: NDArray[np.float32], text: str, corpus: ColumnCorpus, rows: Rows, mode: Mode = "hybrid"
) -> Scores:
    """Score rows of a corpus by how well they answer a phrase."""
    shares: dict[str, Numbers] = {}
    for aspect, weight in TEXT_WEIGHTS[mode].items():
        if aspect == "trigrams":
            shares[aspect] = weight * name_similarity(text, corpus, rows)
        else:
            near: Numbers = np.asarray(corpus.vectors[aspect][rows] @ vector, dtype=np.float64)  # type: ignore[index]
            shares[aspect] = weight * near
    if mode == "hybrid":
        shares["exact name"] = np.isin(rows, corpus.rows_named(text)).astype(np.float64) * _EXACT_BONUS
    return Scores(rows, np.sum(list(shares.values()), axis=0), shares)


def name_similarity(name: str, corpus: ColumnCorpus, rows: Rows) -> Numbers:
    """Cosine of the names' trigrams, rare ones counting more."""
    terms = word_terms(trigrams(name))
    rarity = corpus.name_grams.rarity(terms)
    common = corpus.name_grams.sums(terms, np.square(rarity))[rows]
    lengths = corpus.name_lengths[rows] * np.sqrt(np.square(rarity).sum())
    return np.asarray(np.divide(common, lengths, out=np.zeros(len(rows)), where=lengths > 0))


def _cosine(aspect: Literal["name", "signature"]) -> Callable[[ColumnSignature, ColumnCorpus, Rows], Numbers]:
    def feature(query: ColumnSignature, corpus: ColumnCorpus, rows: Rows) -> Numbers:
        return np.asarray((corpus.vectors[aspect][rows] @ query.vectors[aspect]).clip(0, 1), dtype=np.float64)

    return feature


def _trigrams(query: ColumnSignature, corpus: ColumnCorpus, rows: Rows) -> Numbers:
    return name_similarity(query.profile.name, corpus, rows)


def _values(query: ColumnSignature, corpus: ColumnCorpus, rows: Rows) -> Numbers:
    if "values" not in query.vectors:
        return np.full(len(rows), _NEUTRAL)
    near = (corpus.vectors["values"][rows] @ query.vectors["values"]).astype(np.float64).clip(0, 1)
    return np.where(corpus.has_values[rows], near, _NEUTRAL)


def shared_tokens(query: ColumnSignature, corpus: ColumnCorpus, rows: Rows) -> Numbers:
    """How much of the query's value words a column has, rare words counting more; one alone counts half."""
    terms = word_terms(token for token, _ in query.profile.tokens)
    if not len(terms):
        return np.zeros(len(rows))
    share = np.array([share for _, share in sorted(query.profile.tokens)])
    weights = corpus.value_tokens.rarity(terms) * share
    held = corpus.value_tokens.sums(terms, np.ones(len(terms)))[rows]
    covered = corpus.value_tokens.sums(terms, weights)[rows] / weights.sum()
    return np.asarray(covered * held / (held + 1))


def containment(query: ColumnSignature, corpus: ColumnCorpus, rows: Rows) -> tuple[Numbers, Numbers]:
    """Which share of the query's distinct values a column has, and how many hashes that rests on.

    Both sketches are compared up to the lower of their bounds, within which they know every value.
    """
    if not query.profile.sketch:
        return np.zeros(len(rows)), np.zeros(len(rows))
    terms = np.array(query.profile.sketch, dtype=np.uint64)
    bounds = np.minimum(corpus.sketch_bounds[rows], np.uint64(sketch_bound(query.profile)))
    compared = np.searchsorted(terms, bounds, side="right")
    common = corpus.sketches.sums(terms, np.ones(len(terms)))[rows]
    return np.divide(common, compared, out=np.zeros(len(rows)), where=compared > 0), common


def shared_hashes(query: ColumnSignature, corpus: ColumnCorpus, rows: Rows) -> Numbers:
    """Containment, damped where it rests on few values."""
    share, common = containment(query, corpus, rows)
    return share * common / (common + 2)  # two flags that share yes and no are no evidence


def _formats(query: ColumnSignature, corpus: ColumnCorpus, rows: Rows) -> Numbers:
    own = dict(query.profile.formats)
    found = [
        sum(min(share, corpus.format_shares[row].get(name, 0.0)) for name, share in own.items())
        for row in rows
    ]
    return np.array(found, dtype=np.float64)


def _numbers(query: ColumnSignature, corpus: ColumnCorpus, rows: Rows) -> Numbers:
    """How near the quantiles of two numeric columns lie, measured by the wider one's range."""
    if not query.profile.quantiles:
        return np.zeros(len(rows))
    own, others = np.array(query.profile.quantiles), corpus.quantiles[rows]
    width = np.maximum(np.ptp(own), np.ptp(others, axis=1)).clip(1e-9)
    return np.asarray(np.nan_to_num(1 - np.abs(others - own).mean(axis=1) / width).clip(0, 1))


def _kind(query: ColumnSignature, corpus: ColumnCorpus, rows: Rows) -> Numbers:
    own, others = kind_class(query.profile), corpus.kinds[rows]
    unknown = (others == UNKNOWN) | (own == UNKNOWN)
    return np.where(unknown, 0.5, (others == own).astype(np.float64))


_FEATURES: Final = {
    "name": _cosine("name"),
    "signature": _cosine("signature"),
    "trigrams": _trigrams,
    "values": _values,
    "tokens": shared_tokens,
    "containment": shared_hashes,
    "formats": _formats,
    "numbers": _numbers,
    "kind": _kind,
}


def score_matrix(
    queries: Sequence[ColumnSignature], corpus: ColumnCorpus, weights: Mapping[Feature, float] = WEIGHTS
) -> Numbers:
    """The score of every column of a corpus, a row for each query column."""
    rows = np.arange(len(corpus))
    return np.array([score_column(query, corpus, rows, weights).total for query in queries])


def one_to_one(scores: Numbers) -> Numbers:
    """Scores in which a pair counts as far as each of the two prefers the other: row by column softmax."""
    return _softmax(scores / _TEMPERATURE, axis=1) * _softmax(scores / _TEMPERATURE, axis=0)


def _softmax(scores: Numbers, axis: int) -> Numbers:
    raised = np.exp(scores - scores.max(axis=axis, keepdims=True))
    return np.asarray(raised / raised.sum(axis=axis, keepdims=True))


def best_pairs(scores: Numbers) -> list[tuple[int, int]]:
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


def unionability(scores: Numbers) -> tuple[float, list[tuple[int, int]]]:
    """How far two tables can stand under each other, from 0 to 1, and by which pairs of columns.

    Squares let a few sure pairs count for more than many vague ones; the root of both widths keeps a wide
    table from winning by its width.
    """
    pairs = best_pairs(scores)
    total = sum(max(float(scores[pair]), 0.0) ** 2 for pair in pairs)
    return total / float(np.sqrt(scores.shape[0] * scores.shape[1])), pairs
