"""A table of Delta, by its own log: delta-rs reads it, without a JVM."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kedro_lakehouse.discovery.found import FoundColumn, FoundDataset, type_of
from kedro_lakehouse.errors import require

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deltalake import DeltaTable

_ID: Final = "delta.columnMapping.id"


def open_log(location: str) -> DeltaTable:
    """The newest version of a table.

    Raises:
        UnsupportedError: The package deltalake is not installed.
    """
    deltalake = require(
        "deltalake", what="A table of Delta needs the package deltalake", install="'kedro-lakehouse[delta]'"
    )
    opened: DeltaTable = deltalake.DeltaTable(location, storage_options=_storage(location))
    return opened


def _storage(location: str) -> dict[str, str] | None:
    """What delta-rs has to be told of S3: it takes other names than AWS's own clients."""
    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL", "")
    if not location.startswith("s3") or not endpoint.startswith("http://"):
        return None
    return {"AWS_ALLOW_HTTP": "true", "AWS_ENDPOINT_URL": endpoint}


def delta_dataset(opened: DeltaTable, name: str, location: str) -> FoundDataset:
    """What the log says of a table but the time of its last commit; no data file is read."""
    metadata = opened.metadata()
    partitions = tuple(metadata.partition_columns)
    ids = _ids(opened)
    actions = pa.table(opened.get_add_actions(flatten=True))
    counts = actions["num_records"].to_pylist() if "num_records" in actions.column_names else []
    known = len(counts) == actions.num_rows and None not in counts
    hidden = _hidden_rows(opened)
    arrow = pa.schema(opened.schema().to_arrow())
    columns = tuple(
        FoundColumn(name=f.name, type=type_of(f.type), partition=f.name in partitions, id=ids.get(f.name))
        for f in arrow
    )
    return FoundDataset(
        name=name,
        kind="delta",
        location=location,
        columns=columns,
        identity=str(metadata.id),
        mark=f"{metadata.id} {opened.version()}",
        partitions=partitions,
        rows=sum(counts) - hidden if known else None,
        size=sum(actions["size_bytes"].to_pylist()),
        files=actions.num_rows,
        note="" if known else "its log does not say how many rows its files hold",
    )


def delta_rows(opened: DeltaTable, limit: int) -> pa.Table:
    """Some rows as readers see them."""
    from deltalake import QueryBuilder

    found = QueryBuilder().register("found", opened).execute(f"SELECT * FROM found LIMIT {limit:d}")  # noqa: S608
    return pa.table(found.read_all())


def _ids(opened: DeltaTable) -> Mapping[str, int]:
    """The numbers of columns, where the table maps names to them."""
    fields: list[dict[str, Any]] = json.loads(opened.schema().to_json())["fields"]
    return {f["name"]: f["metadata"][_ID] for f in fields if _ID in f.get("metadata", {})}


def _hidden_rows(opened: DeltaTable) -> int:
    """How many rows deletion vectors hide."""
    features = opened.protocol().reader_features or ()
    if "deletionVectors" not in features:
        return 0
    vectors = pa.table(opened.deletion_vectors().read_all())
    return sum(column.count(False) for column in vectors["selection_vector"].to_pylist())
