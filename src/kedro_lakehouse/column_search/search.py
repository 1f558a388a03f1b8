"""Search the columns of one model's index: by text, by a column, by a file; for joins and for unions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from kedro_lakehouse.column_search.corpus import LEAD
from kedro_lakehouse.column_search.embedders.base import one_thread, unit_rows
from kedro_lakehouse.column_search.results import ColumnFilter, ColumnHit, JoinHit, TableHit, make_hit
from kedro_lakehouse.column_search.scorer import (
    MODES,
    Scores,
    containment,
    name_similarity,
    one_to_one,
    score_column,
    score_text,
    shared_hashes,
    shared_tokens,
    unionability,
)
from kedro_lakehouse.column_search.words import expanded
from kedro_lakehouse.errors import ColumnNotFoundError, did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kedro_lakehouse.column_search.corpus import ColumnCorpus
    from kedro_lakehouse.column_search.embedders.base import Embedder
    from kedro_lakehouse.column_search.indexes.base import VectorIndex
    from kedro_lakehouse.column_search.results import Mode
    from kedro_lakehouse.column_search.signature import ColumnSignature

    Rows = NDArray[np.int64]

CANDIDATES: Final = 200
"""So many columns are taken from each way of finding them, and ranked by the one scorer."""
_EVERYTHING: Final = ColumnFilter()
_JOIN_NAME: Final = 0.1


class ColumnSearch:
    """The columns of one model: vectors find candidates, one scorer ranks them, every hit says why.

    Example:
        >>> search = open_search(model="minilm")  # doctest: +SKIP
        >>> [hit.column_id for hit in search.by_text("where do customers live", k=3)]  # doctest: +SKIP
    """

    def __init__(self, corpus: ColumnCorpus, embedder: Embedder, index: VectorIndex) -> None:
        """Keep the three parts; ``project_search.open_search`` puts them together."""
        self.corpus, self._embedder, self._index = corpus, embedder, index

    @property
    def model_id(self) -> str:
        """The model whose vectors are searched."""
        return self._embedder.model_id

    def by_text(
        self, text: str, *, k: int = 10, mode: Mode = "hybrid", where: ColumnFilter = _EVERYTHING
    ) -> list[ColumnHit]:
        """The columns that answer a phrase best.

        Args:
            mode: What the phrase is compared to: name, content (values), both, or hybrid (all of it).
        """
        vector = self._embedder.embed([expanded(text) if len(text.split()) == 1 else text])[0]
        with one_thread():
            rows = self._candidates(vector, text, None, where)
            return self._hits(score_text(vector, text, self.corpus, rows, mode), k)

    def like(
        self, query: ColumnSignature, *, k: int = 10, mode: Mode = "hybrid", where: ColumnFilter = _EVERYTHING
    ) -> list[ColumnHit]:
        """The columns that are most like a column, itself left out."""
        with one_thread():
            rows = self._candidates_like(query, where)
            return self._hits(score_column(query, self.corpus, rows, MODES[mode]), k, query)

    def joinable(
        self, query: ColumnSignature, *, k: int = 10, where: ColumnFilter = _EVERYTHING
    ) -> list[JoinHit]:
        """The columns that a column can be joined with: those that have its values, keys before others.

        Containment is estimated from sketches: verify it where the sizes of two columns differ much.
        """
        rows = self._candidates_like(query, where)
        share, common = containment(query, self.corpus, rows)
        keys = np.array([self.corpus.profiles[row].distinctness for row in rows])
        likeness = score_column(query, self.corpus, rows)
        total = share * common / (common + 2) * (0.5 + 0.5 * keys) + _JOIN_NAME * likeness.total
        scores = Scores(rows, total, likeness.shares)
        return [
            JoinHit(
                hit=self._hit(scores, int(place), query),
                containment=round(float(share[place]), 4),
                distinctness=round(float(keys[place]), 4),
            )
            for place in scores.top(k)
            if share[place] > 0
        ]

    def unionable(
        self, columns: Sequence[ColumnSignature], *, k: int = 10, where: ColumnFilter = _EVERYTHING
    ) -> list[TableHit]:
        """The tables whose rows can stand under those of a table, with the pairs of their columns."""
        own = {str(one.table) for one in columns}
        rows = np.array([r for r in self._allowed(where) if str(self.corpus.signatures[r].table) not in own])
        if not columns or not len(rows):
            return []
        scored = [score_column(query, self.corpus, rows) for query in columns]
        found = [self._table_hit(columns, scored, places) for places in self._by_table(rows)]
        return sorted(found, key=lambda hit: (-hit.score, hit.namespace, hit.table))[:k]

    def by_columns(
        self, columns: Sequence[ColumnSignature], *, k: int = 10, where: ColumnFilter = _EVERYTHING
    ) -> list[tuple[str, list[ColumnHit]]]:
        """For each column of a table its best hits, two columns preferring each other coming first."""
        rows = self._allowed(where)
        if not columns or not len(rows):
            return []
        scored = [score_column(query, self.corpus, rows) for query in columns]
        mutual = one_to_one(np.array([scores.total for scores in scored]))
        return [
            (query.profile.name, [self._hit(scores, int(place), query) for place in best[:k]])
            for query, scores, best in zip(columns, scored, np.argsort(-mutual, kind="stable"), strict=True)
        ]

    def column(self, column_id: str) -> ColumnSignature:
        """The indexed column of a name, ``namespace.table.column``.

        Raises:
            ColumnNotFoundError: The index has none of this name.
        """
        lower = {name.lower(): row for name, row in self.corpus.row_of.items()}
        row = self.corpus.row_of.get(column_id, lower.get(column_id.lower()))
        if row is None:
            near = did_you_mean(column_id, self.corpus.row_of)
            raise ColumnNotFoundError(column=column_id, columns=len(self.corpus), near=near)
        return self.corpus.signatures[row]

    def table(self, name: str) -> list[ColumnSignature]:
        """The indexed columns of a table, ``namespace.table``, in their order.

        Raises:
            ColumnNotFoundError: The index has no such table.
        """
        found = [one for one in self.corpus.signatures if str(one.table) == name]
        if not found:
            near = did_you_mean(name, {str(one.table) for one in self.corpus.signatures})
            raise ColumnNotFoundError(column=name, columns=len(self.corpus), near=near)
        return sorted(found, key=lambda one: one.ordinal)

    def _candidates_like(self, query: ColumnSignature, where: ColumnFilter) -> Rows:
        """The rows that are worth ranking beside a column, itself left out."""
        parts = [np.float32(weight) * query.vectors[a] for a, weight in LEAD.items() if a in query.vectors]
        rows = self._candidates(unit_rows(np.sum(parts, axis=0)), query.profile.name, query, where)
        return np.asarray(rows[rows != self.corpus.row_of.get(query.column_id, -1)])

    def _allowed(self, where: ColumnFilter) -> Rows:
        if where == _EVERYTHING:
            return np.arange(len(self.corpus))
        return np.array(
            [r for r, one in enumerate(self.corpus.signatures) if where.lets(one)], dtype=np.int64
        )

    def _candidates(
        self, vector: NDArray[np.float32], name: str, query: ColumnSignature | None, where: ColumnFilter
    ) -> Rows:
        """The rows that are worth ranking: near by vector, by name, by the words or hashes of values."""
        allowed = self._allowed(where)
        if len(allowed) <= CANDIDATES:
            return allowed
        corpus, every = self.corpus, np.arange(len(self.corpus))
        near = [
            corpus.row_of[name] for name in self._index.nearest(vector, CANDIDATES) if name in corpus.row_of
        ]
        if where != _EVERYTHING:  # what the index found may all be filtered out: compare those that are let
            near = list(allowed[np.argsort(-(corpus.lead[allowed] @ vector), kind="stable")[:CANDIDATES]])
        found = [np.array(near, dtype=np.int64), _best(name_similarity(name, corpus, every))]
        found.append(np.array(corpus.rows_named(name), dtype=np.int64))
        if query is not None:
            found.append(_best(shared_tokens(query, corpus, every)))
            found.append(_best(shared_hashes(query, corpus, every)))
        let, wanted = np.zeros(len(corpus), dtype=bool), np.zeros(len(corpus), dtype=bool)
        let[allowed], wanted[np.concatenate(found)] = True, True
        return np.flatnonzero(let & wanted)

    def _hits(self, scores: Scores, k: int, query: ColumnSignature | None = None) -> list[ColumnHit]:
        return [self._hit(scores, int(place), query) for place in scores.top(k)]

    def _hit(self, scores: Scores, place: int, query: ColumnSignature | None = None) -> ColumnHit:
        shares = {name: float(part[place]) for name, part in scores.shares.items()}
        return make_hit(self.corpus.signatures[scores.rows[place]], float(scores.total[place]), shares, query)

    def _by_table(self, rows: Rows) -> list[Rows]:
        """The places of each table's columns among some rows."""
        places: dict[str, list[int]] = {}
        for place, row in enumerate(rows):
            places.setdefault(str(self.corpus.signatures[row].table), []).append(place)
        return [np.array(some) for some in places.values()]

    def _table_hit(
        self, columns: Sequence[ColumnSignature], scored: Sequence[Scores], places: Rows
    ) -> TableHit:
        score, pairs = unionability(np.array([scores.total[places] for scores in scored]))
        table = self.corpus.signatures[scored[0].rows[places[0]]].table
        return TableHit(
            namespace=table.namespace,
            table=table.table,
            location=table.location,
            score=round(score, 4),
            pairs=tuple(
                (columns[row].profile.name, self._hit(scored[row], int(places[column]), columns[row]))
                for row, column in pairs
            ),
        )


def _best(scores: NDArray[np.float64]) -> Rows:
    """The rows of the best positive scores, of more than ``CANDIDATES`` scores."""
    some = np.argpartition(-scores, CANDIDATES)[:CANDIDATES]
    return np.asarray(some[scores[some] > 0])
