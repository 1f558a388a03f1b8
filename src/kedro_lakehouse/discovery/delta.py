"""A table of Delta, by its own log: delta-rs reads it, without a JVM."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kedro_lakehouse.discovery.found import FoundColumn, FoundDataset, type_of
from kedro_lakehouse.errors import require
from kedro_lakehouse.formats.delta.entries import data_files
from kedro_lakehouse.formats.delta.log import DeltaLog
from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Mapping

    from deltalake import DeltaTable

_ID: Final = "delta.columnMapping.id"
_UNNAMED: Final = TableName("found", "table")
_MOST_BYTES: Final = 256 * 1024**2
"""Our own reader reads whole files: of larger tables no rows are read."""


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
    hidden = _hidden_rows(opened, location)
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
        rows=sum(counts) - (hidden or 0) if known else None,
        rows_exact=hidden is not None,
        size=sum(actions["size_bytes"].to_pylist()),
        files=actions.num_rows,
        note=_note(known=known, hidden=hidden),
    )


def delta_rows(opened: DeltaTable, location: str, limit: int) -> pa.Table:
    """Some rows as readers see them: by delta-rs, or by our own reader where a feature is beyond it."""
    from deltalake import QueryBuilder
    from deltalake.exceptions import DeltaError

    statement = f"SELECT * FROM found LIMIT {limit:d}"  # noqa: S608 - a number
    try:
        return pa.table(QueryBuilder().register("found", opened).execute(statement).read_all())
    except DeltaError:
        if "://" in location:
            raise
        from kedro_lakehouse.formats.delta.rows import find_rows

        log = DeltaLog(_UNNAMED, opened, {})
        placed = find_rows(log, Path(location), {}, most_bytes=_MOST_BYTES)
        if placed is None:
            raise
        return placed.rows.slice(0, limit)


def _note(*, known: bool, hidden: int | None) -> str:
    if not known:
        return "its log does not say how many rows its files hold"
    return "rows that deletion vectors hide are counted" if hidden is None else ""


def _ids(opened: DeltaTable) -> Mapping[str, int]:
    """The numbers of columns, where the table maps names to them."""
    fields: list[dict[str, Any]] = json.loads(opened.schema().to_json())["fields"]
    return {f["name"]: f["metadata"][_ID] for f in fields if _ID in f.get("metadata", {})}


def _hidden_rows(opened: DeltaTable, location: str) -> int | None:
    """How many rows deletion vectors hide; None if the log is of a kind that is not read here."""
    if "deletionVectors" not in (opened.protocol().reader_features or ()):
        return 0
    if "://" not in location:
        files = data_files(Path(location), opened.version())
        if files is not None:
            return sum(int(file.vector["cardinality"]) for file in files if file.vector)
    from deltalake.exceptions import DeltaError

    try:
        vectors = pa.table(opened.deletion_vectors().read_all())
    except DeltaError:
        return None
    return sum(int(column.count(False)) for column in vectors["selection_vector"].to_pylist())
