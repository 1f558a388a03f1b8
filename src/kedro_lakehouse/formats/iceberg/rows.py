"""Read and write few rows of an Iceberg table with pyarrow: no Spark plan, and no commit.

Columns are matched by their field ids, by pyiceberg, so renamed, added and widened columns are read as Spark
reads them. What is written here is no part of the table until a commit names it.
"""

from __future__ import annotations

import importlib.util
import json
import math
import uuid
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kedro_lakehouse.formats.base import PlacedRows
from kedro_lakehouse.formats.iceberg.files import literal
from kedro_lakehouse.formats.kept_files import KeptFiles
from kedro_lakehouse.formats.placed import positions_of
from kedro_lakehouse.session.arrow import as_spark_reads

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import DataScan, FileScanTask, Table
    from pyiceberg.types import IcebergType, StructType

    from kedro_lakehouse.formats.base import Place

_PATH_ID, _POSITION_ID = 2147483546, 2147483545
"""The field ids that Iceberg reserves for the two columns of a file of deleted positions."""
_BY_POSITIONS: Final = 2
"""The version of Iceberg's format in which files of positions delete rows."""
_OBEYED: Final = (
    "write.metadata.",
    "write.target-file-size-bytes",
    "write.delete.target-file-size-bytes",
    "write.distribution-mode",
    "write.delete.distribution-mode",
    "write.parquet.compression-",
    "write.parquet.row-group-",
    "write.parquet.page-",
    "write.parquet.dict-size-bytes",
    "write.object-storage.",
    "write.data.path",
)
"""Properties that pyiceberg obeys as Spark does, or that a few rows do not meet."""
_MEANT: Final[Mapping[str, tuple[str, ...]]] = {
    "write.format.default": ("parquet",),
    "write.delete.format.default": ("parquet",),
    "write.delete.mode": ("merge-on-read",),
    "write.update.mode": ("merge-on-read",),
    "write.merge.mode": ("merge-on-read",),
    "write.delete.granularity": ("file",),
}
"""Other properties, with the values that describe what is done here."""
_KEPT: Final = KeptFiles()
_KEPT_COLUMNS: Final = KeptFiles(most=128 * 2**20, most_of_one=64 * 2**20)
"""Of tables whose few rows are looked for again and again: the inputs of derived tables."""
_FEW_VALUES: Final = 200
"""Of more values, pyiceberg compares none with the bounds of files; then their range is compared."""


@dataclass(frozen=True)
class WrittenFiles:
    """Files that a commit may add to a table, each as the JSON text by which Iceberg describes a file."""

    data: tuple[str, ...]
    deletes: tuple[str, ...]
    paths: tuple[str, ...]
    marks: Mapping[str, str]
    """The properties of the snapshot that adds them."""
    added: int
    removed: int


def may_change_by_files(table: Table) -> bool:
    """Whether a table can be changed by files that are written here, and these are as it declares them.

    From version 3 on, Iceberg deletes by vectors, which pyiceberg does not write.
    """
    from pyiceberg.transforms import IdentityTransform, VoidTransform

    declared = {k: v for k, v in table.properties.items() if k.startswith("write.")}
    obeyed = all(k.startswith(_OBEYED) or v in _MEANT.get(k, ()) for k, v in declared.items())
    plain = all(isinstance(f.transform, IdentityTransform | VoidTransform) for f in table.spec().fields)
    computed = plain or importlib.util.find_spec("pyiceberg_core") is not None
    read = not any(_loses_nulls(field.field_type) for field in table.schema().fields)
    return table.format_version == _BY_POSITIONS and obeyed and computed and read


def _loses_nulls(kind: IcebergType) -> bool:
    """Whether pyiceberg takes a null for an empty list or map: if their elements or values are structs."""
    from pyiceberg.types import ListType, MapType, StructType

    if isinstance(kind, StructType):
        return any(_loses_nulls(field.field_type) for field in kind.fields)
    inner = kind.element_type if isinstance(kind, ListType) else getattr(kind, "value_type", None)
    if not isinstance(kind, ListType | MapType) or inner is None:
        return False
    return isinstance(inner, StructType) or _loses_nulls(inner)


def find_rows(
    table: Table,
    among: Mapping[str, Sequence[Any]],
    *,
    most_bytes: int,
    near: tuple[str, Any, Any] | None = None,
) -> PlacedRows | None:
    """The rows whose columns have one of the given values each, with their places.

    None if that is not known to be little work: the files that may hold such rows have more bytes than
    ``most_bytes``, or are of a kind that is not read here.
    """
    wanted = _any_of(table, among) if near is None else _any_of(table, among) & _between(table, *near)
    return _find_rows(table, table.scan(row_filter=wanted), among, _KEPT, most_bytes=most_bytes)


def rows_among(
    table: Table,
    snapshot_id: int,
    among: Mapping[str, Sequence[Any]],
    columns: Sequence[str],
    *,
    most_bytes: int,
) -> pa.Table | None:
    """Some columns of the rows at a snapshot whose columns have one of the given values each.

    None if that is not known to be little work, or if there is no such snapshot.
    """
    if table.snapshot_by_id(snapshot_id) is None:
        return None
    needed = tuple(dict.fromkeys([*columns, *among]))
    scan = table.scan(_any_of(table, among), selected_fields=needed, snapshot_id=snapshot_id)
    found = _find_rows(table, scan, among, _KEPT_COLUMNS, most_bytes=most_bytes)
    return None if found is None else found.rows.select(list(columns))


def _find_rows(
    table: Table,
    scan: DataScan,
    among: Mapping[str, Sequence[Any]],
    kept: KeptFiles,
    *,
    most_bytes: int,
) -> PlacedRows | None:
    """The rows of the files of a scan whose columns have one of the given values each."""
    tasks = list(scan.plan_files())
    deletes = {d.file_path: d for task in tasks for d in task.delete_files}
    files = [*(task.file for task in tasks), *deletes.values()]
    if sum(f.file_size_in_bytes for f in files) > most_bytes or not all(map(_is_plain, files)):
        return None
    gone = {path: _deleted_positions(table, file) for path, file in deletes.items()}
    found: list[pa.Table] = []
    places: list[Place] = []
    schema = scan.projection()
    for task in tasks:
        rows = _rows_of(table, schema, task, kept)
        dead = [_positions_in(gone[d.file_path], task.file.file_path) for d in task.delete_files]
        at = positions_of(rows, among, without=pa.chunked_array(dead, pa.int64()).combine_chunks())
        found.append(rows.take(at))
        places += [(task.file.file_path, place) for place in at.to_pylist()]
    told = as_spark_reads(schema.as_arrow())
    empty = told.empty_table()
    return PlacedRows(rows=pa.concat_tables([empty, *[f.cast(told) for f in found]]), places=places)


def write_files(
    table: Table, rows: pa.Table | None, gone: Sequence[Place], marks: Mapping[str, str]
) -> WrittenFiles:
    """Write new rows and the places of deleted ones to files beside the table's own."""
    from pyiceberg.io.pyarrow import _dataframe_to_data_files, schema_to_pyarrow

    written: list[DataFile] = []
    if rows is not None and rows.num_rows:
        wanted = schema_to_pyarrow(table.schema(), include_field_ids=False)
        whole = pa.table([_column(rows, field) for field in wanted], schema=wanted)
        written = list(_dataframe_to_data_files(table.metadata, _sorted(table, whole), table.io))
    data, deletes = [_described(table, file) for file in written], list(_deleted(table, gone))
    return WrittenFiles(
        data=tuple(map(json.dumps, data)),
        deletes=tuple(map(json.dumps, deletes)),
        paths=tuple(str(f["file-path"]) for f in (*data, *deletes)),
        marks=marks,
        added=sum(file.record_count for file in written),
        removed=len(gone),
    )


def _is_plain(file: DataFile) -> bool:
    from pyiceberg.manifest import DataFileContent, FileFormat

    return file.file_format == FileFormat.PARQUET and file.content != DataFileContent.EQUALITY_DELETES


def _any_of(table: Table, among: Mapping[str, Sequence[Any]]) -> BooleanExpression:
    """The condition by which files are skipped; a value that pyiceberg cannot compare skips none."""
    import pyiceberg.expressions as built
    from pyiceberg.types import TimestamptzType

    made: Any = built  # its constructors are typed for pydantic, not for callers
    found: BooleanExpression = made.AlwaysTrue()
    for name, values in among.items():
        zoned = isinstance(table.schema().find_type(name), TimestamptzType)
        told = [literal(v, zoned=zoned) for v in values]
        if not all(map(_is_comparable, told)):
            continue
        if len(told) <= _FEW_VALUES:
            found = made.And(found, made.In(name, told))
        else:
            ends = made.GreaterThanOrEqual(name, min(told)), made.LessThanOrEqual(name, max(told))
            found = made.And(found, *ends)
    return found


def _between(table: Table, name: str, low: Any, high: Any) -> BooleanExpression:
    """The condition that a column, or a struct's field, has a value between two bounds, if these compare."""
    import pyiceberg.expressions as built
    from pyiceberg.types import TimestamptzType

    made: Any = built
    zoned = isinstance(table.schema().find_type(name), TimestamptzType)
    ends = [literal(value, zoned=zoned) for value in (low, high)]
    found: BooleanExpression = made.AlwaysTrue()
    if all(map(_is_comparable, ends)):
        found = made.And(made.GreaterThanOrEqual(name, ends[0]), made.LessThanOrEqual(name, ends[1]))
    return found


def _is_comparable(value: Any) -> bool:
    if value is None or isinstance(value, bytes | bool):
        return False
    return not (isinstance(value, float) and math.isnan(value))


def _rows_of(table: Table, schema: Schema, task: FileScanTask, kept: KeptFiles) -> pa.Table:
    """All rows of a file in their order, also deleted ones, as a schema of the table has them."""
    columns = tuple((field.field_id, field.name, str(field.field_type)) for field in schema.fields)
    key = task.file.file_path, table.metadata.table_uuid, columns
    return kept.rows(key, lambda: _read_rows_of(table, schema, task))


def _read_rows_of(table: Table, schema: Schema, task: FileScanTask) -> pa.Table:
    from pyiceberg.expressions import AlwaysTrue
    from pyiceberg.io.pyarrow import ArrowScan
    from pyiceberg.table import FileScanTask

    scan = ArrowScan(table.metadata, table.io, schema, AlwaysTrue())
    rows = scan.to_table([FileScanTask(task.file)])
    if rows.num_rows != task.file.record_count:
        raise ValueError(f"{task.file.file_path}: {rows.num_rows} rows, not {task.file.record_count}")
    return rows


def _deleted_positions(table: Table, file: DataFile) -> pa.Table:
    def read() -> pa.Table:
        with table.io.new_input(file.file_path).open() as opened:
            return pq.read_table(opened, columns=["file_path", "pos"])

    return _KEPT.rows(file.file_path, read)


def _positions_in(deleted: pa.Table, path: str) -> pa.Array:
    return deleted.filter(pc.equal(deleted["file_path"], path))["pos"].combine_chunks()


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


def _deleted(table: Table, gone: Sequence[Place]) -> Iterable[dict[str, Any]]:
    """One file of deleted positions for each file that holds some; it lies in that file's partition."""
    if not gone:
        return
    positions: dict[str, list[int]] = {}
    for path, position in gone:
        positions.setdefault(path, []).append(position)
    files = {f.file_path: f for f in (task.file for task in table.scan().plan_files())}
    for path, at in positions.items():
        yield _deletes_in(table, files[path], sorted(at))


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


def _described(table: Table, file: DataFile) -> dict[str, Any]:
    """A data file as Iceberg's JSON describes it."""
    from pyiceberg.types import StructType

    facts = {
        "spec-id": table.spec().spec_id,
        "content": "data",
        "file-path": file.file_path,
        "partition": _partition(table, file, table.spec()),
        "file-size-in-bytes": file.file_size_in_bytes,
    }
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
