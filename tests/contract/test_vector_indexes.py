"""The suite that every vector index runs; OpenSearch's requests are checked by a transport that records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from opensearchpy import JSONSerializer, OpenSearch

from kedro_lakehouse.column_search.indexes.base import IndexSettings, VectorIndex, open_index
from kedro_lakehouse.column_search.indexes.opensearch import OpenSearchIndex, document_id
from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.testing.columns import DIMENSION, IDS, VECTORS, VectorIndexContract

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.contract


@pytest.fixture(params=["exact", "lance"])
def kind(request: pytest.FixtureRequest) -> str:
    return request.param


class TestEveryIndex(VectorIndexContract):
    @pytest.fixture(autouse=True)
    def _of_kind(self, kind: str) -> None:
        self.kind = kind

    def opened(self, settings: IndexSettings) -> VectorIndex:
        facts = {key: fact for key, fact in vars(settings).items() if key != "argument"}
        return open_index(self.kind, **facts)


def opened(name: str, folder: Path) -> VectorIndex:
    return open_index(name, model_id="glove:tiny/x", dimension=DIMENSION, folder=str(folder / "index"))


def test_lance_lasts(tmp_path: Path) -> None:
    first = opened("lance", tmp_path)
    first.upsert(IDS, VECTORS)
    first.mark("7")
    again = opened("lance", tmp_path)
    assert (again.state, again.ids()) == ("7", set(IDS))


class Recorder:
    """Stands where the client's transport stands: keeps each request, and answers as the API's pages show."""

    def __init__(self, *_: object, **__: object) -> None:
        self.serializer = JSONSerializer()
        self.requests: list[tuple[str, str, Any]] = []
        self.answers: dict[tuple[str, str], Any] = {}

    def perform_request(
        self, method: str, url: str, *, params: Any = None, body: Any = None, **_: object
    ) -> Any:
        told = [json.loads(line) for line in body.splitlines()] if isinstance(body, str) else body
        self.requests.append((method, url, told))
        action = url.rpartition("/")[2] if "/_" in url or url.startswith("/_") else ""
        answer = self.answers.get((method, action))
        return answer.pop(0) if isinstance(answer, list) else answer


@pytest.fixture
def server() -> tuple[Recorder, OpenSearchIndex]:
    client = OpenSearch(hosts=["http://localhost:9200"], transport_class=Recorder)
    recorder: Any = client.transport
    recorder.answers[("HEAD", "")] = False
    return recorder, OpenSearchIndex(client, "all-MiniLM-L6-v2", DIMENSION)


def test_opensearch_makes_an_index_that_its_third_version_takes(server: Any) -> None:
    recorder, index = server
    method, url, body = recorder.requests[-1]
    assert (method, url) == ("PUT", f"/{index.index}")
    assert index.index.startswith("kedro-lakehouse-columns-all-minilm-l6-v2-")
    assert body["settings"] == {"index": {"knn": True}}
    assert body["mappings"]["dynamic"] == "strict"
    vector = body["mappings"]["properties"]["vector"]
    assert (vector["type"], vector["dimension"]) == ("knn_vector", DIMENSION)
    assert vector["method"] == {
        "name": "hnsw", "engine": "lucene", "space_type": "cosinesimil",
        "parameters": {"m": 16, "ef_construction": 128},
    }  # fmt: skip


def test_opensearch_is_sent_documents_under_their_columns_names(server: Any) -> None:
    recorder, index = server
    recorder.answers[("POST", "_bulk")] = {"errors": False, "items": []}
    index.upsert(IDS[:2], VECTORS[:2])
    index.upsert(["ns.t.zero"], np.zeros((1, DIMENSION), dtype=np.float32))
    index.delete({IDS[0]})
    sent = [body for method, url, body in recorder.requests if url.endswith("/_bulk")]
    assert len(sent) == 2
    assert sent[0][0] == {"index": {"_index": index.index, "_id": IDS[0]}}
    assert sent[0][1]["column_id"] == IDS[0]
    assert sent[0][1]["vector"] == [float(number) for number in VECTORS[0]]
    assert sent[1] == [{"delete": {"_index": index.index, "_id": IDS[0]}}]


def test_opensearch_is_asked_for_the_nearest(server: Any) -> None:
    recorder, index = server
    hits = [{"_id": name, "_source": {"column_id": name}} for name in IDS[:3]]
    recorder.answers[("POST", "_search")] = {"hits": {"hits": hits}}
    assert index.nearest(VECTORS[0], 3) == IDS[:3]
    _, url, body = recorder.requests[-1]
    assert url == f"/{index.index}/_search"
    assert body["query"] == {"knn": {"vector": {"vector": [float(n) for n in VECTORS[0]], "k": 3}}}
    assert body["size"] == 3


def test_opensearch_pages_through_all_names(server: Any) -> None:
    recorder, index = server
    pages = [[{"_source": {"column_id": n}, "sort": [n]} for n in some] for some in (IDS[:2], IDS[2:3], [])]
    recorder.answers[("POST", "_search")] = [{"hits": {"hits": page}} for page in pages]
    assert index.ids() == set(IDS[:3])
    assert recorder.requests[-2][2]["search_after"] == [IDS[1]]


def test_opensearch_keeps_the_state_in_the_mapping(server: Any) -> None:
    recorder, index = server
    recorder.answers[("GET", "_mapping")] = {index.index: {"mappings": {"_meta": {"state": "42"}}}}
    index.mark("42")
    assert recorder.requests[-1] == ("PUT", f"/{index.index}/_mapping", {"_meta": {"state": "42"}})
    assert index.state == "42"


def test_a_refused_document_is_an_error_and_a_missing_one_is_not(server: Any) -> None:
    recorder, index = server
    gone = {"delete": {"_id": "a", "status": 404}}
    refused = {"index": {"_id": "b", "status": 400, "error": {"type": "mapper_parsing_exception"}}}
    recorder.answers[("POST", "_bulk")] = [
        {"errors": True, "items": [gone]},
        {"errors": True, "items": [refused]},
    ]
    index.delete({"a"})
    with pytest.raises(UnsupportedError, match="mapper_parsing_exception"):
        index.upsert(IDS[:1], VECTORS[:1])


def test_opensearch_needs_an_address(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match="https://host:9200"):
        opened("opensearch", tmp_path)


def test_a_name_longer_than_an_id_may_be_is_hashed() -> None:
    assert document_id("a.b.c") == "a.b.c"
    assert len(document_id("ä" * 300)) == 64
