"""A table of Iceberg, by its own metadata: the newest file of it in a folder, or the one a catalog names."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from kedro_lakehouse.discovery.found import FoundColumn, FoundDataset, type_of

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from kedro_lakehouse.discovery.tree import Tree

_VERSION: Final = re.compile(r"^v?(\d+)[.-]")
_TRANSFORMS: Final = {"year": "years", "month": "months", "day": "days", "hour": "hours"}


def metadata_file(tree: Tree, root: str) -> str:
    """The address of the newest metadata of a table that lies in a folder.

    Without a catalog only names and times tell it: of two files with the same number, which two writers
    wrote at once, the later one counts.
    """
    folder = f"{root}/metadata" if root else "metadata"
    found = [f for f in tree.below(folder) if f.folder == folder and ".metadata.json" in f.name]

    def version(name: str) -> int:
        match = _VERSION.match(name)
        return int(match[1]) if match else -1

    newest = max(found, key=lambda f: (version(f.name), f.changed, f.name))
    return tree.address(newest.path)


def open_metadata(location: str) -> Table:
    """The table of a file of metadata, as it was when that was written; it can be read only."""
    from pyiceberg.table import StaticTable

    return StaticTable.from_metadata(location, properties=file_properties())


def file_properties() -> dict[str, str]:
    """How pyiceberg finds files: in S3 at the address that the environment names for every client of AWS."""
    found = {"py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO"}
    if endpoint := os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL"):
        found["s3.endpoint"] = endpoint
    if region := os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION"):
        found["s3.region"] = region
    return found


def iceberg_dataset(table: Table, name: str) -> FoundDataset:
    """What a table's metadata says of it; no data file is read."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    head, schema = table.current_snapshot(), table.schema()
    summary: Any = head.summary.additional_properties if head is not None and head.summary else {}
    arrow = schema_to_pyarrow(schema, include_field_ids=False)
    partitions = tuple(_partition(table, field) for field in table.spec().fields)
    columns = tuple(
        FoundColumn(
            name=f.name, type=type_of(arrow.field(f.name).type), id=f.field_id, partition=f.name in partitions
        )
        for f in schema.fields
    )
    return FoundDataset(
        name=name,
        kind="iceberg",
        location=table.location().removeprefix("file://").removeprefix("file:"),
        columns=columns,
        identity=str(table.metadata.table_uuid),
        mark=table.metadata_location,
        partitions=partitions,
        rows=int(summary.get("total-records", 0)) - int(summary.get("total-position-deletes", 0)),
        rows_exact=int(summary.get("total-equality-deletes", 0)) == 0,
        size=int(summary.get("total-files-size", 0)),
        files=int(summary.get("total-data-files", 0)),
        changed=datetime.fromtimestamp(table.metadata.last_updated_ms / 1000, UTC),
    )


def iceberg_rows(table: Table, limit: int) -> pa.Table:
    """Some rows as readers see them; nested columns are left out."""
    flat = tuple(f.name for f in table.schema().fields if f.field_type.is_primitive)
    if table.current_snapshot() is None or not flat:
        return pa.table({})
    return table.scan(selected_fields=flat, limit=limit).to_arrow()


def _partition(table: Table, field: Any) -> str:
    """A partition as tables.yml writes it."""
    column = table.schema().find_column_name(field.source_id) or field.name
    transform = str(field.transform)
    if transform == "identity":
        return column
    word, _, width = transform.rstrip("]").partition("[")
    return f"{_TRANSFORMS.get(word, word)}({f'{width}, ' if width else ''}{column})"
