"""Read few rows of an Iceberg table with pyarrow, without a Spark plan.

Columns are matched by their field ids, by pyiceberg, so renamed, added and widened columns are read as Spark
reads them.
"""

from __future__ import annotations

import importlib.util
import math
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
    from collections.abc import Mapping, Sequence

    from pyiceberg.expressions import BooleanExpression
    from pyiceberg.manifest import DataFile
    from pyiceberg.schema import Schema
    from pyiceberg.table import DataScan, FileScanTask, Table
    from pyiceberg.types import IcebergType

    from kedro_lakehouse.formats.base import Place

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
    if sum(f.file_size_in_bytes for f in files) > most_bytes or not all(map(is_plain, files)):
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


def live_rows(table: Table, task: FileScanTask, also_gone: Sequence[int]) -> pa.Table:
    """The rows of a data file that are not deleted, as the table has them now.

    Args:
        table: The table.
        task: The data file, and the files that delete rows of it.
        also_gone: The positions of other rows that are no more.
    """
    rows = _rows_of(table, table.schema(), task, _KEPT)
    dead = [_positions_in(_deleted_positions(table, d), task.file.file_path) for d in task.delete_files]
    gone = pa.chunked_array([*dead, pa.array(also_gone, pa.int64())])
    return rows.filter(pc.invert(pc.is_in(pa.array(range(rows.num_rows), pa.int64()), gone)))


def is_plain(file: DataFile) -> bool:
    """Whether a file can be read here: of parquet, and deletes of rows are by their positions."""
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
