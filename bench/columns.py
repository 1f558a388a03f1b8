"""How good the column search is on published sets, beside simpler ways, and what it costs.

Usage: ``.venv/bin/python bench/columns.py --dataset gdc|ugen|t2d --path DIR [--model minilm]``, or
``--dataset cost`` (no path). Every line is measured in the same run with the same model:

names         the vectors of the names alone
rows, sum     the published AWS sample as coded: the vectors of up to 10,000 rows added up, the name's added
rows, mean    the same with the mean of the rows: content only
repaired      the sample's idea put right: name and mean of the rows, each of length 1, added
ours          the installed configuration: one scorer; two tables are matched one to one
"""

from __future__ import annotations

import argparse
import sys
import time
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from column_costs import indexing_cost, query_cost
from column_sets import SetTable, UnionSet, read_t2d, read_table, read_ugen

from kedro_lakehouse.column_search.corpus import ColumnCorpus
from kedro_lakehouse.column_search.embedders.base import Embedder, ModelName, unit_rows
from kedro_lakehouse.column_search.evaluation import MatchingMeasures, read_studies
from kedro_lakehouse.column_search.indexing import describe_columns, embed_columns
from kedro_lakehouse.column_search.scorer import one_to_one, score_matrix, score_text, unionability
from kedro_lakehouse.column_search.signature import ColumnSignature, TableVersion

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from numpy.typing import NDArray

ROOT: Final = Path(__file__).resolve().parents[1]
ROWS: Final = 10_000
OURS: Final = "ours"
BASELINES: Final = ("names", "rows, sum", "rows, mean", "repaired")


def precision_at(k: int, ranked: Sequence[str], right: Collection[str]) -> float:
    """The share of right ones among the first ``k``."""
    return sum(name in right for name in ranked[:k]) / k


def average_precision_at(k: int, ranked: Sequence[str], right: Collection[str]) -> float:
    """The mean precision at each right one of the first ``k``, over the right ones that fit into them."""
    hits, total = 0, 0.0
    for place, name in enumerate(ranked[:k], start=1):
        if name in right:
            hits += 1
            total += hits / place
    return total / min(k, len(right)) if right else 0.0


class Remembering:
    """An embedder that computes each text once in a run, and tells how far it is."""

    def __init__(self, embedder: Embedder) -> None:
        """Wrap an embedder."""
        self._embedder, self.dimension, self.model_id = embedder, embedder.dimension, embedder.model_id
        self._known: dict[str, NDArray[np.float32]] = {}

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return one row a text."""
        new = [text for text in dict.fromkeys(texts) if text not in self._known]
        for begin in range(0, len(new), 5000):
            some = new[begin : begin + 5000]
            self._known.update(zip(some, self._embedder.embed(some), strict=True))
            if len(new) > len(some):
                print(f"  {begin + len(some):,} of {len(new):,} texts", file=sys.stderr, flush=True)
        return np.array([self._known[text] for text in texts], dtype=np.float32).reshape(-1, self.dimension)


def signatures(table: SetTable, embedder: Remembering) -> list[ColumnSignature]:
    """The product's signatures of a table."""
    version = TableVersion(namespace="bench", table=table.name, location=table.name, version="")
    described = describe_columns(version, table.profiles, embedder.model_id)
    return embed_columns(described, embedder)


def rows_of(counts: dict[str, int]) -> list[tuple[str, int]]:
    """The values of a column's first rows, with their counts."""
    some, left = [], ROWS
    for value, count in counts.items():
        some.append((value, min(count, left)))
        left -= some[-1][1]
        if not left:
            break
    return some


def embed_together(tables: Sequence[SetTable], embedder: Remembering) -> None:
    """Let the model see all texts of a set at once: texts of one length go together, which is faster."""
    texts: list[str] = []
    for table in tables:
        version = TableVersion(namespace="bench", table=table.name, location=table.name, version="")
        for one in describe_columns(version, table.profiles, embedder.model_id):
            texts += [one.profile.name, *filter(None, one.texts.values())]
        texts += [value for counts in table.values for value, _ in rows_of(counts)]
    embedder.embed(texts)


def baseline(table: SetTable, way: str, embedder: Remembering) -> NDArray[np.float32]:
    """One vector a column, as a simpler way makes it; vectors are compared by cosine."""
    names = embedder.embed([profile.name for profile in table.profiles])
    if way == "names":
        return names
    sums = np.zeros_like(names)
    for place, counts in enumerate(table.values):
        if some := rows_of(counts):
            weights = np.array([count for _, count in some], dtype=np.float32)
            sums[place] = weights @ embedder.embed([value for value, _ in some])
            if way != "rows, sum":
                sums[place] /= weights.sum()
    if way == "rows, mean":
        return unit_rows(sums)
    return unit_rows(sums + names) if way == "rows, sum" else unit_rows(unit_rows(sums) + names)


def show(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print an aligned table."""
    cells = [[f"{c:.3f}" if isinstance(c, float) else str(c) for c in row] for row in (headings, *rows)]
    widths = [max(len(row[place]) for row in cells) for place in range(len(headings))]
    for row in cells:
        print(
            "  ".join(
                c.ljust(w) if not i else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
            )
        )


def bench_gdc(folder: Path, embedder: Remembering) -> None:
    """Match each study's columns with the target's."""
    rows: list[list[object]] = []
    studies = read_studies(folder)
    tables = {path: read_table(path) for study in studies for path in (study.source, study.target)}
    embed_together(list(tables.values()), embedder)
    for way in (*BASELINES, OURS):
        found = []
        for study in studies:
            source, target = tables[study.source], tables[study.target]
            if way == OURS:
                corpus = ColumnCorpus(signatures(target, embedder), embedder.dimension)
                scores = one_to_one(score_matrix(signatures(source, embedder), corpus))
            else:
                scores = baseline(source, way, embedder) @ baseline(target, way, embedder).T
            truth = study.pairs([p.name for p in source.profiles], [p.name for p in target.profiles])
            found.append(MatchingMeasures.of(scores.astype(np.float64), truth))
        mean = MatchingMeasures.mean(found)
        rows.append([way, mean.mrr, mean.recall_at_truth, mean.recall_at_10])
        if way == OURS:
            rows += [[f"  {s.name}", m.mrr, m.recall_at_truth, m.recall_at_10]
                     for s, m in zip(studies, found, strict=True)]  # fmt: skip
    show(["gdc", "MRR", "Recall@GT", "Recall@10"], rows)


def bench_ugen(folder: Path, embedder: Remembering) -> None:
    """Rank the lake's tables for each query table by their column scores."""
    data, rows = read_ugen(folder), []
    embed_together([*data.queries, *data.lake], embedder)
    for way in (*BASELINES, OURS):
        ranked = rank_tables(data, way, embedder)
        precision = [precision_at(10, ranked[name], right) for name, right in data.truth.items()]
        average = [average_precision_at(10, ranked[name], right) for name, right in data.truth.items()]
        rows.append([way, float(np.mean(precision)), float(np.mean(average))])
    show(["ugen", "P@10", "MAP@10"], rows)


def rank_tables(data: UnionSet, way: str, embedder: Remembering) -> dict[str, list[str]]:
    """The lake's tables for each query, the best first."""
    widths = np.cumsum([0, *[len(table.profiles) for table in data.lake]])
    places = [slice(a, b) for a, b in pairwise(widths)]
    score: Callable[[SetTable], NDArray[np.float64]]
    if way == OURS:
        corpus = ColumnCorpus(
            [s for table in data.lake for s in signatures(table, embedder)], embedder.dimension
        )

        def score(query: SetTable) -> NDArray[np.float64]:
            return score_matrix(signatures(query, embedder), corpus)
    else:
        lake = np.concatenate([baseline(table, way, embedder) for table in data.lake if table.profiles])

        def score(query: SetTable) -> NDArray[np.float64]:
            return (baseline(query, way, embedder) @ lake.T).astype(np.float64)

    ranked = {}
    for query in data.queries:
        matrix = score(query)
        totals = np.array([unionability(matrix[:, p])[0] if p.stop > p.start else 0.0 for p in places])
        ranked[query.name] = [data.lake[place].name for place in np.argsort(-totals, kind="stable")]
    return ranked


def bench_t2d(folder: Path, embedder: Remembering) -> None:
    """Find the columns of a property by one of them, and by the property's name."""
    data = read_t2d(folder)
    embed_together(data.tables, embedder)
    owners = [(table.name, place) for table in data.tables for place in range(len(table.profiles))]
    meanings = [data.meaning.get(owner, "") for owner in owners]
    asked = [row for row, meaning in enumerate(meanings) if meaning and meanings.count(meaning) > 1]
    rows: list[list[object]] = []
    corpus = ColumnCorpus([s for t in data.tables for s in signatures(t, embedder)], embedder.dimension)
    for way in (*BASELINES, OURS):
        if way == OURS:
            matrix = score_matrix([corpus.signatures[row] for row in asked], corpus)
        else:
            vectors = np.concatenate([baseline(table, way, embedder) for table in data.tables])
            matrix = (vectors[asked] @ vectors.T).astype(np.float64)
        matrix[np.arange(len(asked)), asked] = -np.inf
        right = [[r for r, m in enumerate(meanings) if m == meanings[row] and r != row] for row in asked]
        rows.append([f"by column: {way}", *ranking_measures(matrix, right)])
    phrases = sorted(set(meanings) - {""})
    right = [[r for r, m in enumerate(meanings) if m == phrase] for phrase in phrases]
    vectors = embedder.embed([data.phrase(phrase) for phrase in phrases])
    names = (vectors @ np.concatenate([baseline(t, "names", embedder) for t in data.tables]).T).astype(
        np.float64
    )
    every = np.arange(len(corpus))
    ours = [score_text(v, data.phrase(p), corpus, every).total for v, p in zip(vectors, phrases, strict=True)]
    rows.append(["by phrase: names", *ranking_measures(names, right)])
    rows.append([f"by phrase: {OURS}", *ranking_measures(np.array(ours), right)])
    show(["t2d", "MRR", "P@10", "MAP"], rows)


def ranking_measures(
    matrix: NDArray[np.float64], right: Sequence[Sequence[int]]
) -> tuple[float, float, float]:
    """MRR, precision at 10 (of as many as there are) and mean average precision over the whole list."""
    mrr, precision, average = [], [], []
    for scores, wanted in zip(matrix, right, strict=True):
        ranked = [str(place) for place in np.argsort(-scores, kind="stable")]
        names = {str(place) for place in wanted}
        first = next(place for place, name in enumerate(ranked, start=1) if name in names)
        mrr.append(1 / first)
        precision.append(precision_at(min(10, len(names)), ranked, names))
        average.append(average_precision_at(len(ranked), ranked, names))
    return float(np.mean(mrr)), float(np.mean(precision)), float(np.mean(average))


def main() -> int:
    """Measure one set."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", choices=("gdc", "ugen", "t2d", "cost"), required=True)
    parser.add_argument("--path", type=Path, help="folder of the set")
    parser.add_argument("--model", default="minilm", help="embedder or embedder:argument")
    parser.add_argument("--columns", type=int, default=100_000, help="cost: columns of the query benchmark")
    options = parser.parse_args()
    if options.dataset != "cost" and (options.path is None or not options.path.is_dir()):
        parser.error("--path: the folder of the set is needed")
    begun = time.perf_counter()
    embedder = ModelName.parse(options.model).open(ROOT / ".cache")
    if options.dataset == "cost":
        indexing_cost(embedder)
        query_cost(embedder, options.columns)
    else:
        way = {"gdc": bench_gdc, "ugen": bench_ugen, "t2d": bench_t2d}[options.dataset]
        way(options.path, Remembering(embedder))
    print(f"model {embedder.model_id}, {time.perf_counter() - begun:.0f} s")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
