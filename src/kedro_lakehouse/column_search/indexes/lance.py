"""LanceDB: an index on disk, for more columns than fit into memory."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import pyarrow as pa

from kedro_lakehouse.errors import require

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from kedro_lakehouse.column_search.indexes.base import IndexSettings

_PARTITIONED_FROM: Final = 300_000
_NPROBES: Final = 20
_REFINE: Final = 10
_AT_ONCE: Final = 1_000


class LanceIndex:
    """A LanceDB table a model; IVF_PQ from 300,000 columns on, before that every vector is compared."""

    def __init__(self, database: Any, name: str, dimension: int) -> None:
        """Open the model's table."""
        self._name, self._database = name, database
        schema = pa.schema([("id", pa.string()), ("vector", pa.list_(pa.float32(), dimension))])
        self._table = database.create_table(name, schema=schema, exist_ok=True)
        self._states = database.create_table(
            "states", schema=pa.schema([("id", pa.string()), ("state", pa.string())]), exist_ok=True
        )

    @classmethod
    def open(cls, settings: IndexSettings) -> Self:
        """Open the database in the folder that the argument names, by default in the lakehouse.

        Raises:
            UnsupportedError: The package lancedb is not installed.
        """
        lancedb = require("lancedb", what="The index 'lance' needs the package lancedb", install="lancedb")
        folder = Path(settings.argument or settings.folder).expanduser()
        folder.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^A-Za-z0-9_.-]", "_", settings.model_id)
        return cls(lancedb.connect(str(folder)), name, settings.dimension)

    @property
    def state(self) -> str:
        """The state that the table was last brought to."""
        found = self._states.search().where(f"id = {_text(self._name)}").to_list()
        return str(found[0]["state"]) if found else ""

    def upsert(self, ids: Sequence[str], vectors: NDArray[np.float32]) -> None:
        """Merge rows by their names, and build the partitions once there are enough rows."""
        rows = [{"id": name, "vector": vector} for name, vector in zip(ids, vectors, strict=True)]
        if not rows:
            return
        _merge(self._table, rows)
        if self._table.count_rows() >= _PARTITIONED_FROM:
            self._table.create_index("cosine", vector_column_name="vector", index_type="IVF_PQ", replace=True)

    def delete(self, ids: Collection[str]) -> None:
        """Delete rows by their names."""
        names = sorted(ids)
        for begin in range(0, len(names), _AT_ONCE):
            self._table.delete(f"id IN ({', '.join(map(_text, names[begin : begin + _AT_ONCE]))})")

    def ids(self) -> set[str]:
        """All names."""
        return set(self._table.to_arrow().column("id").to_pylist())

    def mark(self, state: str) -> None:
        """Keep the state beside the vectors."""
        _merge(self._states, [{"id": self._name, "state": state}])

    def nearest(self, vector: NDArray[np.float32], k: int) -> list[str]:
        """The nearest rows by cosine."""
        found = self._table.search(vector).distance_type("cosine").nprobes(_NPROBES).refine_factor(_REFINE)
        return [str(row["id"]) for row in found.select(["id", "_distance"]).limit(k).to_list()]


def _merge(table: Any, rows: list[dict[str, Any]]) -> None:
    merge = table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
    merge.execute(pa.Table.from_pylist(rows, schema=table.schema))


def _text(value: str) -> str:
    return "'" + value.replace("'", "''") + "'"
