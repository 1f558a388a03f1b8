"""OpenSearch: a kNN index a model, on a server that the user runs."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, Final, Self

from kedro_lakehouse.errors import UnsupportedError, require

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from kedro_lakehouse.column_search.indexes.base import IndexSettings

_AT_ONCE: Final = 500
_MAX_ID: Final = 512
_PAGE: Final = 10_000
_NOT_THERE: Final = 404
_PREFIX: Final = "kedro-lakehouse-columns-"


def mapping_of(dimension: int) -> dict[str, Any]:
    """The settings and mapping of a model's index: the engine that OpenSearch 2 and 3 both have.

    Source:
        OpenSearch's documentation of the type knn_vector, method hnsw, engine lucene.
    """
    parameters = {"m": 16, "ef_construction": 128}
    method = {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil", "parameters": parameters}
    vector = {"type": "knn_vector", "dimension": dimension, "method": method}
    return {
        "settings": {"index": {"knn": True}},
        "mappings": {"dynamic": "strict", "properties": {"column_id": {"type": "keyword"}, "vector": vector}},
    }


class OpenSearchIndex:
    """``opensearch:https://host:9200``; every document's ``_id`` is its column's name."""

    def __init__(self, client: Any, model_id: str, dimension: int) -> None:
        """Make the model's index where there is none."""
        self._client = client
        slug = re.sub(r"[^a-z0-9-]+", "-", model_id.lower()).strip("-")
        self.index = f"{_PREFIX}{slug}-{hashlib.sha256(model_id.encode()).hexdigest()[:6]}"
        if not client.indices.exists(index=self.index):
            client.indices.create(index=self.index, body=mapping_of(dimension))

    @classmethod
    def open(cls, settings: IndexSettings) -> Self:
        """Connect to the server that the argument names.

        Raises:
            UnsupportedError: No server was named, or the package opensearch-py is not installed.
        """
        what = "The index 'opensearch' needs the package opensearch-py"
        package = require("opensearchpy", what=what, install="opensearch-py")
        if not settings.argument:
            raise UnsupportedError(
                what="The index 'opensearch' does not know its server.",
                remedy="Name it: opensearch:https://host:9200.",
            )
        client = package.OpenSearch(hosts=[settings.argument], http_compress=True, timeout=30)
        return cls(client, settings.model_id, settings.dimension)

    @property
    def state(self) -> str:
        """The state that the index's metadata names."""
        found = self._client.indices.get_mapping(index=self.index)
        return str(found[self.index]["mappings"].get("_meta", {}).get("state", ""))

    def upsert(self, ids: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Send documents in bulk; one with the same name is replaced."""
        self._send(
            {**self._action("index", name), "column_id": name, "vector": vector.tolist()}
            for name, vector in zip(ids, vectors, strict=True)
            if vector.any()  # cosine similarity has no answer for zero vectors: the server refuses them
        )

    def delete(self, ids: Collection[str]) -> None:
        """Delete documents in bulk."""
        self._send(self._action("delete", name) for name in sorted(ids))

    def ids(self) -> set[str]:
        """All names, page by page."""
        found: set[str] = set()
        after: list[Any] | None = None
        while True:
            place = {"search_after": after} if after else {}
            hits = self._hits({"size": _PAGE, "sort": [{"column_id": "asc"}], **place}, {"match_all": {}})
            if not hits:
                return found
            found |= {hit["_source"]["column_id"] for hit in hits}
            after = hits[-1]["sort"]

    def mark(self, state: str) -> None:
        """Keep the state in the index's metadata."""
        self._client.indices.refresh(index=self.index)
        self._client.indices.put_mapping(index=self.index, body={"_meta": {"state": state}})

    def nearest(self, vector: NDArray[np.float32], k: int) -> list[str]:
        """Ask for the nearest documents."""
        hits = self._hits({"size": k}, {"knn": {"vector": {"vector": vector.tolist(), "k": k}}})
        return [str(hit["_source"]["column_id"]) for hit in hits]

    def _hits(self, page: dict[str, Any], query: dict[str, Any]) -> list[dict[str, Any]]:
        body = {**page, "_source": ["column_id"], "query": query}
        hits: list[dict[str, Any]] = self._client.search(index=self.index, body=body)["hits"]["hits"]
        return hits

    def _action(self, kind: str, name: str) -> dict[str, Any]:
        return {"_op_type": kind, "_index": self.index, "_id": document_id(name)}

    def _send(self, actions: Iterable[dict[str, Any]]) -> None:
        from opensearchpy.helpers import bulk

        done, refused = bulk(self._client, actions, chunk_size=_AT_ONCE, raise_on_error=False)
        failed = [entry for item in refused for entry in item.values() if entry["status"] != _NOT_THERE]
        if failed:
            kind = failed[0].get("error", {}).get("type", "unknown")
            raise UnsupportedError(
                what=f"OpenSearch refused {len(failed)} of {done + len(refused)} documents ({kind}).",
                remedy="See the server's log; the next run sends them again.",
            )


def document_id(column_id: str) -> str:
    """The ``_id`` of a column's document: its name, or where that exceeds an _id's 512 bytes its hash."""
    name = column_id.encode()
    return column_id if len(name) <= _MAX_ID else hashlib.sha256(name).hexdigest()
