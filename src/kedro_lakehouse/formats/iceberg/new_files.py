"""Write new rows of an Iceberg table, and the places of deleted ones, to files that a commit may then name.

Nothing that is written here is part of the table before that.
"""

from __future__ import annotations

import json
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from kedro_lakehouse.formats.iceberg.merging import files_to_merge, is_tiny, may_merge
from kedro_lakehouse.formats.iceberg.rows import live_rows

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import FileScanTask, Table
    from pyiceberg.types import StructType

    from kedro_lakehouse.formats.base import Place

_PATH_ID, _POSITION_ID = 2147483546, 2147483545
"""The field ids that Iceberg reserves for the two columns of a file of deleted positions."""


@dataclass(frozen=True)
class WrittenFiles:
    """Files that a commit may add to a table, each as the JSON text by which Iceberg describes a file."""

    data: tuple[str, ...]
    deletes: tuple[str, ...]
    paths: tuple[str, ...]
    """Where all that was written lies, also what a merge wrote."""
    marks: Mapping[str, str]
    """The properties of the snapshots that the commit makes."""
    added: int
    removed: int
    replaced: tuple[str, ...] = ()
    """The data files whose remaining rows are written anew, among ``data``."""
    replaced_deletes: tuple[str, ...] = ()
    """The files of deletes that concern the replaced files alone."""
    merge: MergedFiles | None = None


@dataclass(frozen=True)
class MergedFiles:
    """Small files, some of the same commit, and what takes their place with the same rows."""

    data: tuple[str, ...]
    replaced: tuple[str, ...]
    replaced_deletes: tuple[str, ...]
    """The files of deletes that concern the replaced files alone."""


def write_files(
    table: Table, rows: pa.Table | None, gone: Sequence[Place], marks: Mapping[str, str]
) -> WrittenFiles:
    """Write new rows and the places of deleted ones to files beside the table's own.

    Where a partition has many small files then, their rows are also written to a larger one, which takes
    their place in the same commit. Of a tiny table all rows are written anew instead, if some are deleted.
    """
    positions: dict[str, list[int]] = {}
    for path, position in gone:
        positions.setdefault(path, []).append(position)
    merges = may_merge(table)
    tasks = list(table.scan().plan_files()) if positions or merges else []
    if positions and is_tiny(table, tasks):
        return _anew(table, tasks, rows, positions, marks)
    written = _new_data(table, _as_stored(table, rows)) if rows is not None else []
    files = {task.file.file_path: task.file for task in tasks}
    deletes = {path: _deletes_in(table, files[path], sorted(at)) for path, at in positions.items()}
    data = [_described(table, file) for file in written]
    larger, merge = _merged(table, tasks, written, deletes, positions) if merges else ([], None)
    return WrittenFiles(
        data=tuple(map(json.dumps, data)),
        deletes=tuple(map(json.dumps, deletes.values())),
        paths=tuple(str(f["file-path"]) for f in (*data, *deletes.values(), *larger)),
        marks=marks,
        added=sum(file.record_count for file in written),
        removed=len(gone),
        merge=merge,
    )


def _anew(
    table: Table,
    tasks: Sequence[FileScanTask],
    rows: pa.Table | None,
    positions: Mapping[str, Sequence[int]],
    marks: Mapping[str, str],
) -> WrittenFiles:
    """Write the rows that stay and the new ones to files that take the place of all others."""
    new = _as_stored(table, rows if rows is not None else _arrow_schema(table).empty_table())
    whole = pa.concat_tables([_live_rows(table, tasks, positions), new])
    data = [_described(table, file) for file in _new_data(table, whole)]
    deletes = {delete.file_path: delete for task in tasks for delete in task.delete_files}
    return WrittenFiles(
        data=tuple(map(json.dumps, data)),
        deletes=(),
        paths=tuple(str(file["file-path"]) for file in data),
        marks=marks,
        added=new.num_rows,
        removed=sum(map(len, positions.values())),
        replaced=tuple(json.dumps(_named(table, task.file, "data")) for task in tasks),
        replaced_deletes=tuple(
            json.dumps(_named(table, delete, "position-deletes")) for delete in deletes.values()
        ),
    )


def _new_data(table: Table, rows: pa.Table) -> list[DataFile]:
    """Write rows, as the table stores them, to data files, one for each partition."""
    from pyiceberg.io.pyarrow import _dataframe_to_data_files

    if not rows.num_rows:
        return []
    written = list(_dataframe_to_data_files(table.metadata, _sorted(table, rows), table.io))
    for file in written:
        file.spec_id = table.spec().spec_id
    return written


def _as_stored(table: Table, rows: pa.Table) -> pa.Table:
    """Rows with all columns of a table, in its order and of its types."""
    wanted = _arrow_schema(table)
    return pa.table([_column(rows, field) for field in wanted], schema=wanted)


def _live_rows(
    table: Table, tasks: Sequence[FileScanTask], positions: Mapping[str, Sequence[int]]
) -> pa.Table:
    """The rows of data files that are deleted neither by their files of deletes nor by these positions."""
    kind = _arrow_schema(table)
    found = [live_rows(table, task, positions.get(task.file.file_path, ())).cast(kind) for task in tasks]
    return pa.concat_tables(found)


def _arrow_schema(table: Table) -> pa.Schema:
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return schema_to_pyarrow(table.schema(), include_field_ids=False)


def _merged(
    table: Table,
    tasks: Sequence[FileScanTask],
    written: Sequence[DataFile],
    deletes: Mapping[str, dict[str, Any]],
    positions: Mapping[str, Sequence[int]],
) -> tuple[list[dict[str, Any]], MergedFiles | None]:
    """Write the rows of small files that are to become one; the new files, and what they replace."""
    from pyiceberg.table import FileScanTask

    small = files_to_merge(table, tasks, [FileScanTask(file) for file in written], positions)
    if not small:
        return [], None
    data = [_described(table, file) for file in _new_data(table, _live_rows(table, small, positions))]
    old = [_named(table, delete, "position-deletes") for task in small for delete in task.delete_files]
    new = [deletes[task.file.file_path] for task in small if task.file.file_path in deletes]
    return data, MergedFiles(
        data=tuple(map(json.dumps, data)),
        replaced=tuple(json.dumps(_named(table, task.file, "data")) for task in small),
        replaced_deletes=tuple(map(json.dumps, [*old, *new])),
    )


def _column(rows: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    if field.name not in rows.column_names:
        return pa.chunked_array([pa.nulls(rows.num_rows, field.type)])
    return rows[field.name].cast(field.type)


def _sorted(table: Table, rows: pa.Table) -> pa.Table:
    """The rows in the order of the table's columns of sorting, as Spark writes them."""
    from pyiceberg.transforms import IdentityTransform

    names = [table.schema().find_column_name(f.source_id) for f in table.sort_order().fields]
    plain = all(isinstance(f.transform, IdentityTransform) for f in table.sort_order().fields)
    nested = any(n and pa.types.is_nested(rows.schema.field(n).type) for n in names if n in rows.column_names)
    if not names or not plain or nested or not set(names) <= set(rows.column_names):
        return rows
    ways = [
        (name, "descending" if "desc" in str(f.direction).lower() else "ascending")
        for name, f in zip(names, table.sort_order().fields, strict=True)
    ]
    return rows.sort_by(ways)


def _deletes_in(table: Table, of: DataFile, positions: Sequence[int]) -> dict[str, Any]:
    """Write the deleted positions of one data file; return how Iceberg describes the file."""
    from pyiceberg.io.pyarrow import (
        compute_statistics_plan,
    )
    from pyiceberg.schema import Schema
    from pyiceberg.table.locations import load_location_provider
    from pyiceberg.types import LongType, NestedField, StringType

    ids = {"file_path": _PATH_ID, "pos": _POSITION_ID}
    kinds = {"file_path": pa.string(), "pos": pa.int64()}
    fields = [
        pa.field(n, k, nullable=False, metadata={"PARQUET:field_id": str(ids[n])}) for n, k in kinds.items()
    ]
    rows = pa.table([[of.file_path] * len(positions), positions], schema=pa.schema(fields))
    provider = load_location_provider(table.location(), table.properties)
    place = provider.new_data_location(f"{uuid.uuid4().hex}-deletes.parquet")
    made = table.io.new_output(place)
    with made.create() as out:
        pq.write_table(rows, out, compression="zstd")
    schema = Schema(
        NestedField(_PATH_ID, "file_path", StringType(), required=True),
        NestedField(_POSITION_ID, "pos", LongType(), required=True),
    )
    whole = {"write.metadata.metrics.default": "full"}
    facts = {
        "spec-id": of.spec_id,
        "content": "position-deletes",
        "file-path": place,
        "partition": _partition(table, of, table.specs()[of.spec_id]),
        "file-size-in-bytes": len(made),
        "referenced-data-file": of.file_path,
    }
    return facts | _metrics(_measured(table, place, schema, compute_statistics_plan(schema, whole)))


def _named(table: Table, file: DataFile, content: str) -> dict[str, Any]:
    """What Iceberg needs to know of a file to find it in a table."""
    return {
        "spec-id": file.spec_id,
        "content": content,
        "file-path": file.file_path,
        "file-format": "parquet",
        "partition": _partition(table, file, table.specs()[file.spec_id]),
        "file-size-in-bytes": file.file_size_in_bytes,
        "record-count": file.record_count,
    }


def _described(table: Table, file: DataFile) -> dict[str, Any]:
    """A data file as Iceberg's JSON describes it."""
    from pyiceberg.types import StructType

    facts = _named(table, file, "data")
    names = ("record_count", "column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
    measured = {n: getattr(file, n) for n in (*names, "lower_bounds", "upper_bounds", "split_offsets")}
    if any(isinstance(field.field_type, StructType) for field in table.schema().fields):
        measured |= _bounds_within_structs(table, file)
    if table.sort_order().fields:
        facts["sort-order-id"] = table.sort_order().order_id
    return facts | _metrics(measured)


def _bounds_within_structs(table: Table, file: DataFile) -> dict[str, dict[int, bytes]]:
    """The bounds of a file's columns with those of the fields of structs, which pyiceberg leaves out.

    Without the bounds of ``_order``, every file of the change log might hold any order.
    """
    from pyiceberg.io.pyarrow import (
        MetricModeTypes,
        MetricsMode,
        compute_statistics_plan,
        match_metrics_mode,
    )
    from pyiceberg.schema import sanitize_column_names
    from pyiceberg.table import TableProperties as Named

    default = table.properties.get(Named.DEFAULT_WRITE_METRICS_MODE, Named.DEFAULT_WRITE_METRICS_MODE_DEFAULT)
    mode = match_metrics_mode(default)
    if mode.type not in (MetricModeTypes.TRUNCATE, MetricModeTypes.FULL):
        return {}
    written = sanitize_column_names(table.schema())  # Avro's names: files have `GICS_x20Sector`
    plan = compute_statistics_plan(written, table.properties)
    for number, is_text in _within_structs(table.schema().as_struct()):
        plan[number] = replace(plan[number], mode=mode if is_text else MetricsMode(MetricModeTypes.FULL))
    found = _measured(table, file.file_path, written, plan)
    return {name: found[name] for name in ("lower_bounds", "upper_bounds")}


def _measured(table: Table, place: str, schema: Schema, plan: dict[int, Any]) -> dict[str, Any]:
    """The counts and bounds of a written file, from its footer, as pyiceberg plans them for each field."""
    from pyiceberg.io.pyarrow import data_file_statistics_from_parquet_metadata, parquet_path_to_id_mapping

    with table.io.new_input(place).open() as opened:
        footer = pq.read_metadata(opened)
    found = data_file_statistics_from_parquet_metadata(footer, plan, parquet_path_to_id_mapping(schema))
    return dict(found.to_serialized_dict())


def _within_structs(struct: StructType) -> Iterable[tuple[int, bool]]:
    """The ids of the simple fields of a struct and of structs in it, and whether each is text or bytes."""
    from pyiceberg.types import BinaryType, StringType, StructType

    for field in struct.fields:
        if isinstance(field.field_type, StructType):
            yield from _within_structs(field.field_type)
        elif field.field_type.is_primitive:
            yield field.field_id, isinstance(field.field_type, StringType | BinaryType)


def _metrics(found: Mapping[str, Any]) -> dict[str, Any]:
    counted = ("column_sizes", "value_counts", "null_value_counts", "nan_value_counts")
    counts = {name.replace("_", "-"): _pairs(found[name] or {}) for name in counted}
    bounds = {
        name.replace("_", "-"): _pairs({k: v.hex().upper() for k, v in (found[name] or {}).items()})
        for name in ("lower_bounds", "upper_bounds")
    }
    fixed = {"file-format": "parquet", "record-count": found["record_count"]}
    return fixed | counts | bounds | {"split-offsets": list(found["split_offsets"] or [])}


def _pairs(values: Mapping[int, Any]) -> dict[str, list[Any]]:
    return {"keys": sorted(values), "values": [values[k] for k in sorted(values)]}


def _partition(table: Table, file: DataFile, spec: PartitionSpec) -> list[Any]:
    """The values of a file's partition, each as Iceberg writes single values in JSON."""
    from pyiceberg.conversions import to_json

    kinds: list[Any] = [field.field_type for field in spec.partition_type(table.schema()).fields]
    values = [file.partition[i] for i in range(len(kinds))]
    return [None if v is None else to_json(kind, v) for kind, v in zip(kinds, values, strict=True)]
