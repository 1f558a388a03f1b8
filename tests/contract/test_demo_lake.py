"""Scenario S5 on the demo lake: what `make demo-lake` indexes, searched by name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from harness.project import DATA, ROOT

from kedro_lakehouse.column_search.corpus import ColumnCorpus
from kedro_lakehouse.column_search.embedders.base import Embedder, ModelName
from kedro_lakehouse.column_search.embedders.weights import MINILM, weights_folder
from kedro_lakehouse.column_search.files import SUFFIXES, read_batches, suffix_of
from kedro_lakehouse.column_search.indexes.exact import ExactIndex
from kedro_lakehouse.column_search.indexing import describe_columns, embed_columns
from kedro_lakehouse.column_search.profile import profile_table
from kedro_lakehouse.column_search.search import ColumnSearch
from kedro_lakehouse.column_search.sketch import sketch_batches
from kedro_lakehouse.column_search.survey import file_tables

if TYPE_CHECKING:
    from kedro_lakehouse.column_search.signature import ColumnSignature

CACHE = ROOT / ".cache"
# The bundled tables of the lake are the ones that the tests expect of them.
FOLDERS = [str(DATA / "demo_lake"), str(DATA / "column_eval"), str(DATA / "expected/dms_sample")]
pytestmark = [
    pytest.mark.contract,
    pytest.mark.skipif(
        not weights_folder(MINILM, CACHE).is_dir(), reason="the model is not in .cache: make model"
    ),
]


@pytest.fixture(scope="module")
def model() -> Embedder:
    return ModelName.parse("minilm").open(CACHE)


@pytest.fixture(scope="module")
def columns() -> list[ColumnSignature]:
    return [
        replace(one, texts={**one.texts, "signature": "", "values": "", "context": ""})
        for table in file_tables(FOLDERS)
        for one in describe_columns(
            table,
            profile_table(sketch_batches(read_batches(Path(table.location))), table=table.table),
            MINILM.model_id,
        )
    ]


@pytest.fixture(scope="module")
def search(columns: list[ColumnSignature], model: Embedder) -> ColumnSearch:
    """A search by name alone: the other texts are not embedded, which takes ten times as long."""
    embedded = embed_columns(columns, model)
    corpus = ColumnCorpus(embedded, model.dimension)
    index = ExactIndex(model.dimension)
    index.upsert([one.column_id for one in embedded], corpus.lead)
    return ColumnSearch(corpus, model, index)


def test_the_demo_lake_has_400_columns_of_25_tables_in_every_kind_of_file(
    columns: list[ColumnSignature],
) -> None:
    assert len(columns) >= 400
    assert len({str(one.table) for one in columns}) >= 25
    kinds = {suffix_of(path) for path in (DATA / "demo_lake").rglob("*.*")}
    assert {".csv", ".json", ".ndjson", ".parquet"} <= kinds & set(SUFFIXES)


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ("district", {"transit_district", "city", "borough", "location"}),
        ("zip_code", {"zip_code", "zcode", "postalcode"}),
    ],
)
def test_names_are_found_by_their_meaning(search: ColumnSearch, payload: str, expected: set[str]) -> None:
    assert expected <= {hit.column for hit in search.by_text(payload, k=10, mode="name")}
