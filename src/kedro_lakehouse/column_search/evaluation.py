"""How good the search is on published sets: measures of ranked lists, and schema matching.

Matching is posed as in the GDC studies: each source table against one wide target, with the truth.
"""

from __future__ import annotations

import csv
from dataclasses import dataclass
from pathlib import Path  # noqa: TC003 - a dataclass keeps it
from typing import TYPE_CHECKING

import numpy as np

from kedro_lakehouse.column_search.corpus import ColumnCorpus
from kedro_lakehouse.column_search.files import read_batches
from kedro_lakehouse.column_search.indexing import query_columns
from kedro_lakehouse.column_search.scorer import one_to_one, score_matrix
from kedro_lakehouse.column_search.sketch import sketch_batches
from kedro_lakehouse.errors import UnreadableFileError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from collections.abc import Set as AbstractSet

    from numpy.typing import NDArray

    from kedro_lakehouse.column_search.embedders.base import Embedder
    from kedro_lakehouse.column_search.signature import ColumnSignature


def ranks(scores: NDArray[np.float64]) -> NDArray[np.int64]:
    """The rank of each entry in its row, from 1; of equal scores the earlier entry comes first."""
    # The inverse of a permutation is the permutation that sorts it.
    return np.argsort(np.argsort(-scores, axis=1, kind="stable"), axis=1) + 1


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


@dataclass(frozen=True, kw_only=True)
class MatchingMeasures:
    """How well columns were matched; means over studies are taken of each."""

    mrr: float
    recall_at_truth: float
    recall_at_10: float

    @classmethod
    def of(cls, scores: NDArray[np.float64], truth: AbstractSet[tuple[int, int]]) -> MatchingMeasures:
        """Measure one matrix of scores, a row a source column."""
        return cls(
            mrr=mean_reciprocal_rank(scores, truth),
            recall_at_truth=recall_at_truth(scores, truth),
            recall_at_10=recall_at(10, scores, truth),
        )

    @classmethod
    def mean(cls, found: Sequence[MatchingMeasures]) -> MatchingMeasures:
        """The mean over studies."""
        parts = {name: float(np.mean([getattr(one, name) for one in found])) for name in cls.__annotations__}
        return cls(**parts)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """The studies, and the models that are evaluated on each of them."""

    studies: Sequence[Study]
    embedders: Sequence[Embedder]


@dataclass(frozen=True)
class Study:
    """One study: its source table, the target table, and the right pairs of their column names."""

    name: str
    source: Path
    target: Path
    truth: frozenset[tuple[str, str]]

    def pairs(self, source: Sequence[str], target: Sequence[str]) -> set[tuple[int, int]]:
        """The right pairs as places in two lists of names."""
        rows = {name: place for place, name in enumerate(source)}
        columns = {name: place for place, name in enumerate(target)}
        return {(rows[a], columns[b]) for a, b in self.truth if a in rows and b in columns}


def read_studies(folder: Path) -> list[Study]:
    """The studies below a folder: ``<study>/{source,groundtruth}.csv``, ``target.csv`` there or beside it.

    Raises:
        UnreadableFileError: There is no study.
    """
    found = []
    for source in sorted(folder.glob("*/source.csv")):
        own = source.with_name("target.csv")
        with source.with_name("groundtruth.csv").open(encoding="utf-8-sig", newline="") as lines:
            rows = [(row["source"].strip(), row["target"].strip()) for row in csv.DictReader(lines)]
        target = own if own.is_file() else folder / "target.csv"
        found.append(Study(source.parent.name, source, target, frozenset(rows)))
    if not found:
        raise UnreadableFileError(
            table="column_eval", file=str(folder.name), detail="no <study>/source.csv in it"
        )
    return found


def evaluate_studies(studies: Sequence[Study], embedder: Embedder) -> dict[str, MatchingMeasures]:
    """Match every study as the product matches two tables, and measure it."""
    corpora: dict[Path, ColumnCorpus] = {}
    found = {}
    for study in studies:
        if study.target not in corpora:
            corpora[study.target] = ColumnCorpus(_columns(study.target, embedder), embedder.dimension)
        corpus, source = corpora[study.target], _columns(study.source, embedder)
        scores = one_to_one(score_matrix(source, corpus))
        truth = study.pairs([one.profile.name for one in source], [p.name for p in corpus.profiles])
        found[study.name] = MatchingMeasures.of(scores, truth)
    return found


def _columns(path: Path, embedder: Embedder) -> list[ColumnSignature]:
    return query_columns(sketch_batches(read_batches(path)), path, embedder)
