"""What the column search costs: 400 columns indexed, and a query among 100,000."""

from __future__ import annotations

import time
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from kedro_lakehouse.column_search.corpus import ColumnCorpus
from kedro_lakehouse.column_search.embedders.base import unit_rows
from kedro_lakehouse.column_search.indexes.exact import ExactIndex
from kedro_lakehouse.column_search.indexing import PendingIndex, PendingTable, change_index
from kedro_lakehouse.column_search.search import ColumnSearch
from kedro_lakehouse.column_search.signature import ASPECTS, ColumnSignature, TableVersion
from kedro_lakehouse.column_search.sketch import ColumnSketch, sketch_batches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.column_search.embedders.base import Embedder

_FIRST = (
    "customer",
    "order",
    "invoice",
    "product",
    "shipment",
    "account",
    "sensor",
    "patient",
    "city",
    "team",
)
_SECOND = (
    "name",
    "code",
    "amount",
    "status",
    "type",
    "country",
    "description",
    "quantity",
    "price",
    "weight",
)
_WORDS = ("red", "green", "blue", "north", "south", "east", "west", "alpha", "beta", "large", "open", "paid")
_KINDS = ("words", "codes", "numbers", "dates")


def generated_tables(columns: int, rows: int = 5_000, width: int = 16) -> list[PendingTable]:
    """Tables of made-up columns, seeded: words, codes, numbers and dates."""
    chance = np.random.default_rng(7)
    made = []
    for number in range(-(-columns // width)):
        data: dict[str, list[str] | np.ndarray] = {}
        for place in range(min(width, columns - number * width)):
            name = f"{chance.choice(_FIRST)}_{chance.choice(_SECOND)}_{place}"
            kind = _KINDS[place % len(_KINDS)]
            if kind == "words":
                data[name] = [" ".join(chance.choice(_WORDS, 2)) for _ in range(rows)]
            elif kind == "codes":
                data[name] = [
                    f"{chance.choice(_WORDS)[:2].upper()}-{n}" for n in chance.integers(0, 9999, rows)
                ]
            elif kind == "numbers":
                data[name] = chance.normal(100, 20, rows).round(2)
            else:
                data[name] = [f"2024-{m:02d}-{d:02d}" for m, d in zip(
                    chance.integers(1, 13, rows), chance.integers(1, 29, rows), strict=True)]  # fmt: skip
        version = TableVersion(namespace="bench", table=f"t{number}", location=f"t{number}", version="1")
        made.append(PendingTable(version, partial(sketch_batches, [pa.table(data)])))
    return made


def indexing_cost(embedder: Embedder) -> None:
    """Profile and embed 400 columns of 25 tables; then again with nothing changed, then with one changed."""
    embedder.embed(["warm up"])
    tables = generated_tables(400)
    begun, worked = time.perf_counter(), time.process_time()
    change = change_index(PendingIndex(tables, [embedder]))
    seconds, worked = time.perf_counter() - begun, time.process_time() - worked
    told = ", ".join(f"{name} {taken:.1f} s" for name, taken in change.seconds.items())
    print(f"indexed {len(change.upserts)} columns of {len(tables)} tables: {seconds:.1f} s ({told})")
    print(f"  processor time: {worked:.1f} s")
    known = {one.fingerprint: one.vectors for one in change.upserts}
    again = change_index(PendingIndex(tables, [embedder], known=lambda _: known))
    print(f"again, nothing changed: {again.embedded} embedded")
    first = tables[0]

    def changed() -> dict[str, ColumnSketch]:
        sketches = dict(first.sketch())
        name = next(iter(sketches))
        sketches[name] = ColumnSketch.of(pa.array(["quite", "other", "values"]))
        return sketches

    moved = [replace(first, sketch=changed), *tables[1:]]
    third = change_index(PendingIndex(moved, [embedder], known=lambda _: known))
    print(f"one column changed: {third.embedded} embedded")


def query_cost(embedder: Embedder, columns: int) -> None:
    """The time of a query by text and by column among many columns, the text's own embedding included."""
    base = change_index(PendingIndex(generated_tables(400, rows=500), [embedder])).upserts
    search = many_columns(base, columns, embedder)
    words = [f"{a} {b}" for a in _FIRST for b in _SECOND[:5]]
    chance = np.random.default_rng(3)
    rows = chance.integers(0, columns, 50)
    search.by_text("warm up")
    search.like(search.corpus.signatures[0])
    by_text, by_column = [], []
    worked = time.process_time()
    for text, row in zip(words, rows, strict=True):
        begun = time.perf_counter()
        search.by_text(text)
        by_text.append(time.perf_counter() - begun)
        begun = time.perf_counter()
        search.like(search.corpus.signatures[row])
        by_column.append(time.perf_counter() - begun)
    for name, taken in (("text", by_text), ("column", by_column)):
        p50, p95 = np.percentile(taken, [50, 95]) * 1000
        print(f"query by {name} among {columns:,} columns: p50 {p50:.0f} ms, p95 {p95:.0f} ms")
    print(f"one query: {(time.process_time() - worked) * 1000 / (2 * len(words)):.0f} CPU-ms on average")


def many_columns(base: Sequence[ColumnSignature], columns: int, embedder: Embedder) -> ColumnSearch:
    """A search over so many columns: real ones, repeated with noise in their vectors and other names."""
    chance = np.random.default_rng(5)
    made = []
    for number in range(columns):
        one = base[number % len(base)]
        noise = {
            a: unit_rows(v + chance.normal(0, 0.02, v.shape).astype(np.float32))
            for a, v in one.vectors.items()
        }
        profile = replace(one.profile, name=f"{one.profile.name}{number // len(base)}")
        table = replace(one.table, table=f"t{number // 16}", location=f"t{number // 16}")
        made.append(replace(one, table=table, profile=profile, vectors=noise))
    corpus = ColumnCorpus(made, embedder.dimension)
    index = ExactIndex(embedder.dimension)
    index.upsert([one.column_id for one in made], corpus.lead)
    assert set(corpus.vectors) == set(ASPECTS)  # noqa: S101 - all that a query reads is there
    return ColumnSearch(corpus, embedder, index)
