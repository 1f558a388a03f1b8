"""What the tests of the column search share: the test embedder, small tables, a search over them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from kedro_lakehouse.column_search.corpus import ColumnCorpus
from kedro_lakehouse.column_search.embedders.ngrams import HashEmbedder
from kedro_lakehouse.column_search.indexes.exact import ExactIndex
from kedro_lakehouse.column_search.indexing import describe_columns, embed_columns
from kedro_lakehouse.column_search.profile import profile_table
from kedro_lakehouse.column_search.search import ColumnSearch
from kedro_lakehouse.column_search.signature import ColumnSignature, TableVersion
from kedro_lakehouse.column_search.sketch import sketch_batches

CITIES = ["Berlin", "Bonn", "Bremen", "Hamburg", "Kiel", "Mainz", "Munich", "Ulm"]
LAKE = {
    ("shop", "customer"): {
        "id": list(range(8)),
        "city": CITIES,
        "email": [f"a{n}@mail.org" for n in range(8)],
    },
    ("shop", "purchase"): {"customer_id": [0, 1, 1, 2, 5, 7, 7, 7], "amount": [1.5, 2, 9, 4, 4, 8, 1, 3.25]},
    ("geo", "place"): {"town": [*CITIES[:6], "Essen", "Trier"], "zcode": [str(10000 + n) for n in range(8)]},
}


@pytest.fixture
def embedder() -> HashEmbedder:
    return HashEmbedder.open("", Path())


def describe(
    name: tuple[str, str], data: dict[str, Any], embedder: Any, **facts: Any
) -> list[ColumnSignature]:
    version = TableVersion(
        namespace=name[0], table=name[1], **{"location": f"lake/{name[1]}", "version": "1"} | facts
    )
    profiles = profile_table(sketch_batches([pa.table(data)]), table=name[1], personal=version.personal)
    return embed_columns(describe_columns(version, profiles, embedder.model_id), embedder)


@pytest.fixture
def signatures(embedder: HashEmbedder) -> list[ColumnSignature]:
    return [
        one
        for name, data in LAKE.items()
        for one in describe(name, data, embedder, tags=("master",) if name[1] == "customer" else ())
    ]


@pytest.fixture
def search(signatures: list[ColumnSignature], embedder: HashEmbedder) -> ColumnSearch:
    corpus = ColumnCorpus(signatures, embedder.dimension)
    index = ExactIndex(embedder.dimension)
    index.upsert([one.column_id for one in signatures], corpus.lead)
    return ColumnSearch(corpus, embedder, index)
