"""The map of the column space: a place in the plane for each column of a model, made once an index build."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa

from kedro_lakehouse.column_search.corpus import ColumnCorpus
from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from kedro_lakehouse.column_search.signature import ColumnSignature
    from kedro_lakehouse.column_search.store import SignatureStore
    from kedro_lakehouse.session.catalog import MetadataCatalog

SPACE: Final = TableName.ops("column_space")
SPACE_SCHEMA: Final = pa.schema(
    [("model_id", pa.string()), ("column_id", pa.string()), ("x", pa.float64()), ("y", pa.float64())]
)
"""One row a (model_id, column_id)."""
_STATE: Final = "kedro_lakehouse.column_space"
"""Table property: the snapshot of the signatures that the map was made of."""


def plane_of(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Places in the plane that keep as much as they can of how far vectors lie from each other.

    The two leading principal components: the same vectors always give the same places, and 100,000
    columns take a second. They are scaled to at most 1.
    """
    if len(vectors) < 2:  # noqa: PLR2004 - one column has no distances
        return np.zeros((len(vectors), 2))
    centred = vectors - vectors.mean(axis=0)
    _, axes = np.linalg.eigh((centred.T @ centred).astype(np.float64))
    places = centred @ axes[:, :-3:-1]
    # An axis may point either way: let its longest side be the positive one.
    longest = places[np.abs(places).argmax(axis=0), np.arange(2)]
    greatest = float(np.abs(longest).max()) or 1.0
    return np.asarray(places * np.where(longest < 0, -1.0, 1.0) / greatest)


class SpaceStore:
    """The maps of all models, ``lake.ops.column_space``."""

    def __init__(self, catalog: MetadataCatalog) -> None:
        """Keep where the table is; it is made with the first map."""
        self._catalog = catalog

    def rebuild(self, signatures: SignatureStore) -> None:
        """Map every model's columns anew, in one commit; nothing where the signatures are those mapped.

        Where another machine's run commits first, its map stands: the next run compares again.
        """
        state, mapped = str(signatures.snapshot_id() or ""), self._catalog.outline(SPACE)
        if not state or (mapped is not None and mapped.properties.get(_STATE) == state):
            return
        from pyiceberg.exceptions import CommitFailedException

        table = self._catalog.find(SPACE) or self._catalog.catalog.create_table_if_not_exists(
            SPACE.identifier, schema=SPACE_SCHEMA, properties={"format-version": "2"}
        )
        rows = [row for model in signatures.models() for row in _rows(model, signatures.read(model))]
        with contextlib.suppress(CommitFailedException), table.transaction() as transaction:
            if table.current_snapshot() is not None:
                transaction.delete("true")
            transaction.append(pa.Table.from_pylist(rows, schema=SPACE_SCHEMA))
            transaction.set_properties({_STATE: state})

    def read(self, model_id: str) -> dict[str, tuple[float, float]]:
        """The place of each column of a model."""
        found = self._catalog.find(SPACE)
        rows = [] if found is None else found.scan().to_arrow().to_pylist()
        return {row["column_id"]: (row["x"], row["y"]) for row in rows if row["model_id"] == model_id}


def _rows(model_id: str, signatures: Sequence[ColumnSignature]) -> list[dict[str, Any]]:
    dimension = max((len(vector) for one in signatures for vector in one.vectors.values()), default=1)
    corpus = ColumnCorpus(signatures, dimension)
    return [
        {"model_id": model_id, "column_id": one.column_id, "x": float(x), "y": float(y)}
        for one, (x, y) in zip(signatures, plane_of(corpus.lead), strict=True)
    ]
