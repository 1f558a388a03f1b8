"""Read and write few rows of a Delta table with pyarrow: no Spark plan, and no commit.

Data files know columns by physical names, at any depth, so renamed, added and widened columns are read as
Spark reads them. What is written here is no part of the table until an entry of its log names it.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import math
import re
import uuid
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyroaring import BitMap64

from kedro_lakehouse.formats.base import PlacedRows
from kedro_lakehouse.formats.delta.entries import WrittenFiles, addition, data_files, removal
from kedro_lakehouse.formats.delta.log import physical_name
from kedro_lakehouse.formats.delta.vectors import read_vector, write_vector
from kedro_lakehouse.formats.placed import positions_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from kedro_lakehouse.formats.base import Place
    from kedro_lakehouse.formats.delta.entries import DataFile
    from kedro_lakehouse.formats.delta.log import DeltaLog

_OBEYED: Final = frozenset(
    {
        "appendOnly", "clustering", "columnMapping", "deletionVectors", "domainMetadata",
        "inCommitTimestamp", "invariants", "timestampNtz", "typeWidening",
    }
)  # fmt: skip
"""Features of tables that are obeyed here, or that a few rows do not meet."""
_TYPES: Final[Mapping[str, pa.DataType]] = {
    "string": pa.string(),
    "long": pa.int64(),
    "integer": pa.int32(),
    "short": pa.int16(),
    "byte": pa.int8(),
    "float": pa.float32(),
    "double": pa.float64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_DECIMAL: Final = re.compile(r"decimal\((\d+),\s*(\d+)\)")
_SHOWN: Final = 32
"""Bounds of texts are cut to so many characters, as Spark cuts them."""
_HIGHEST: Final = "\U0010ffff"
_EXACT: Final = (int, str)
"""Bounds of other types may be cut, or have another form in JSON, so no file is skipped by them."""


def may_change_by_files(log: DeltaLog) -> bool:
    """Whether a table can be changed by files that are written here, and these are as it declares them.

    Tables in an object store, and those that are partitioned by others than texts, are changed by Spark.
    """
    readers, writers, features = log.protocol
    declared = log.properties
    own = not any(name.startswith("delta.parquet.") for name in declared)
    append_only = declared.get("delta.appendOnly") == "true"
    mapped = declared.get("delta.columnMapping.mode") == "name"
    known = (readers, writers) == (3, 7) and features <= _OBEYED
    texts = {f["name"] for f in log.schema if f["type"] == "string"}
    parted = set(log.partitions) <= texts
    return known and own and mapped and parted and not append_only and _are_known(log.schema)


def find_rows(
    log: DeltaLog, folder: Path, among: Mapping[str, Sequence[Any]], *, most_bytes: int
) -> PlacedRows | None:
    """The rows whose columns have one of the given values each, with their places.

    None if that is not known to be little work: the files that may hold such rows have more bytes than
    ``most_bytes``, or are of a kind that is not read here.
    """
    files = data_files(folder, log.version)
    if files is None:
        return None
    physical = {f["name"]: physical_name(f) for f in log.schema}
    near = [f for f in files if all(_may_hold(f, physical[name], values) for name, values in among.items())]
    if sum(f.bytes_to_read() for f in near) > most_bytes:
        return None
    schema = pa.schema([(f["name"], _logical(f["type"])) for f in log.schema])
    found: list[pa.Table] = []
    places: list[Place] = []
    for file in near:
        rows = _rows_of(folder, file, log.schema, schema)
        gone = read_vector(folder, file.vector) if file.vector else BitMap64()
        at = positions_of(rows, among, without=pa.array(gone, pa.int64()))
        found.append(rows.take(at))
        places += [(file.path, place) for place in at.to_pylist()]
    return PlacedRows(rows=pa.concat_tables([schema.empty_table(), *found]), places=places)


def write_files(
    log: DeltaLog, folder: Path, rows: pa.Table | None, gone: Sequence[Place]
) -> WrittenFiles | None:
    """Write new rows, and the places of deleted ones, to files beside the table's own.

    None if Spark must write them: the log is of a kind that is not read here, or a row belongs to a partition
    that Delta has no name for (of an empty text it makes null).
    """
    actions: list[Mapping[str, Any]] = []
    paths: list[Path] = []
    if gone:
        files = data_files(folder, log.version)
        if files is None:
            return None
        deleted: dict[str, list[int]] = {}
        for path, position in gone:
            deleted.setdefault(path, []).append(position)
        known = {f.path: f for f in files}
        for path, positions in deleted.items():
            less, vector = _less(folder, known[path], positions)
            actions += less
            paths += vector
    parts = _parts(rows, log.partitions) if rows is not None else []
    if any(value == "" for partition, _ in parts for value in partition.values()):
        return None
    physical = {f["name"]: physical_name(f) for f in log.schema}
    for partition, part in parts:
        made = folder / f"part-{uuid.uuid4()}.parquet"
        stats = _write(made, part, [f for f in log.schema if f["name"] not in partition])
        named = {physical[name]: value for name, value in partition.items()}
        actions.append(addition(made.name, made.stat().st_size, named, stats))
        paths.append(made)
    return WrittenFiles(
        planned_on=log.version,
        actions=tuple(actions),
        paths=tuple(paths),
        added=rows.num_rows if rows is not None else 0,
        removed=len(gone),
    )


def _parts(rows: pa.Table, names: Sequence[str]) -> list[tuple[dict[str, str | None], pa.Table]]:
    """The rows of each partition."""
    found: list[tuple[dict[str, str | None], pa.Table]] = [({}, rows)]
    for name in names:
        found = [
            (partition | {name: value}, part.filter(_equal(part[name], value)))
            for partition, part in found
            for value in pc.unique(part[name]).to_pylist()
        ]
    return [(partition, part) for partition, part in found if part.num_rows]


def _equal(values: pa.ChunkedArray, value: str | None) -> pa.ChunkedArray:
    return pc.is_null(values) if value is None else pc.fill_null(pc.equal(values, value), False)  # noqa: FBT003


def _less(
    folder: Path, file: DataFile, positions: Sequence[int]
) -> tuple[list[Mapping[str, Any]], list[Path]]:
    """The actions that delete some more rows of a file, and the files that were written for it."""
    gone = (read_vector(folder, file.vector) if file.vector else BitMap64()) | BitMap64(positions)
    if len(gone) == file.stats["numRecords"]:
        return [removal(file)], []
    vector, path = write_vector(folder, gone)
    kept = {k: file.added[k] for k in ("modificationTime", "clusteringProvider") if file.added.get(k)}
    stats = dict(file.stats) | {"tightBounds": False}
    added = addition(file.path, file.added["size"], file.partition, stats, **kept, deletionVector=vector)
    return [removal(file), added], [path]


def _may_hold(file: DataFile, column: str, values: Sequence[Any]) -> bool:
    """Whether a file may hold one of some values, by what the log says of it."""
    if column in file.partition:
        return file.partition[column] in values
    low, high = (file.stats.get(ends, {}).get(column) for ends in ("minValues", "maxValues"))
    if any(isinstance(v, bool) or not isinstance(v, _EXACT) for v in (low, high, *values)):
        return True
    return any(type(v) is not type(low) or low <= v <= high for v in values)


def _rows_of(
    folder: Path, file: DataFile, fields: Sequence[Mapping[str, Any]], schema: pa.Schema
) -> pa.Table:
    """All rows of a file in their order, also deleted ones, as the table's schema has them now."""
    # Spark writes times as INT96, which pyarrow would read as nanoseconds: these reach to the year 2262.
    read = pq.read_table(folder / file.path, partitioning=None, coerce_int96_timestamp_unit="us")
    if read.num_rows != file.stats["numRecords"]:
        raise ValueError(f"{file.path}: {read.num_rows} rows, not {file.stats['numRecords']}")
    columns = []
    for field, wanted in zip(fields, schema, strict=True):
        name = physical_name(field)
        if name in file.partition:
            columns.append(pa.array([file.partition[name]] * read.num_rows, wanted.type))
            continue
        if name not in read.column_names:
            columns.append(pa.nulls(read.num_rows, wanted.type))
            continue
        held = read[name].combine_chunks()
        columns.append(held.view(_named(held.type, field["type"])).cast(wanted.type))
    return pa.table(columns, schema=schema)


def _write(path: Path, rows: pa.Table, fields: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Write rows to a data file; return its statistics."""
    columns, stored = [], []
    for field in fields:
        kind = _logical(field["type"])
        given = field["name"] in rows.column_names
        values = rows[field["name"]].combine_chunks().cast(kind) if given else pa.nulls(rows.num_rows, kind)
        columns.append(values)
        stored.append(_stored(field))
    named = [values.view(field.type) for values, field in zip(columns, stored, strict=True)]
    pq.write_table(pa.table(named, schema=pa.schema(stored)), path, compression="snappy")
    stats: dict[str, Any] = {"numRecords": rows.num_rows, "minValues": {}, "maxValues": {}, "nullCount": {}}
    for field, values in zip(fields, columns, strict=True):
        _measure(field, values, stats["minValues"], stats["maxValues"], stats["nullCount"])
    return stats | {"tightBounds": True}


def _measure(
    field: Mapping[str, Any],
    values: pa.Array,
    low: dict[str, Any],
    high: dict[str, Any],
    nulls: dict[str, Any],
) -> None:
    """Note a column's bounds and count of nulls under its physical name; of a struct those of its fields."""
    name, kind = physical_name(field), field["type"]
    if isinstance(kind, dict) and kind["type"] == "struct":
        inner: tuple[dict[str, Any], ...] = ({}, {}, {})
        for i, part in enumerate(kind["fields"]):
            _measure(part, pc.struct_field(values, i), *inner)
        for ends, found in zip((low, high, nulls), inner, strict=True):
            ends[name] = found
        return
    nulls[name] = values.null_count
    if pa.types.is_nested(values.type) or values.null_count == len(values):
        return
    with contextlib.suppress(ValueError, OverflowError):  # no bounds: such a file is read
        low[name], high[name] = _bounds(values)


def _bounds(values: pa.Array) -> tuple[Any, Any]:
    """The lowest and the highest value, as the log writes them.

    Raises:
        ValueError: The log has no exact form of them.
    """
    kind = values.type
    if pa.types.is_boolean(kind) or pa.types.is_binary(kind):
        raise ValueError(f"no bounds of {kind}")
    if pa.types.is_floating(kind) and pc.any(pc.is_nan(values)).as_py():
        raise ValueError("NaN has no place among bounds")
    ends = pc.min_max(values)
    low, high = ends["min"].as_py(), ends["max"].as_py()
    if isinstance(low, str):
        whole = len(high) <= _SHOWN or high[_SHOWN] == _HIGHEST
        return low[:_SHOWN], high if whole else high[:_SHOWN] + _HIGHEST
    return _in_json(low), _in_json(high)


def _in_json(value: Any) -> Any:
    if isinstance(value, dt.datetime):
        zone = "Z" if value.tzinfo else ""
        return value.replace(tzinfo=None).isoformat(timespec="milliseconds") + zone
    if isinstance(value, dt.date):
        return value.isoformat()
    if isinstance(value, Decimal):
        number = int(value) if value == value.to_integral_value() else float(value)
        if Decimal(repr(number)) != value:
            raise ValueError(f"{value} is no number of JSON")
        return number
    if isinstance(value, float) and (value == 0 or not math.isfinite(value)):
        raise ValueError("no bound: 0.0 is -0.0 as well, and JSON has no infinity")
    return value


def _are_known(fields: Sequence[Mapping[str, Any]]) -> bool:
    """Whether pyarrow has the types of columns, and no column has a rule of its own."""
    try:
        for field in fields:
            _logical(field["type"])
    except KeyError:
        return False
    ruled = ("delta.invariants", "delta.generationExpression", "delta.identity.start")
    return not any(not f["nullable"] or any(r in (f.get("metadata") or {}) for r in ruled) for f in fields)


def _logical(kind: str | Mapping[str, Any]) -> pa.DataType:
    """A type of Delta's in Arrow, with the names that the table has now."""
    if isinstance(kind, str):
        found = _DECIMAL.fullmatch(kind)
        return pa.decimal128(int(found[1]), int(found[2])) if found else _TYPES[kind]
    if kind["type"] == "struct":
        return pa.struct([(f["name"], _logical(f["type"])) for f in kind["fields"]])
    if kind["type"] == "array":
        return pa.list_(_logical(kind["elementType"]))
    return pa.map_(_logical(kind["keyType"]), _logical(kind["valueType"]))


def _stored(field: Mapping[str, Any]) -> pa.Field:
    """A column or field as data files have it: physical name, and its id."""
    number = (field.get("metadata") or {}).get("delta.columnMapping.id")
    facts = {"PARQUET:field_id": str(number)} if number is not None else None
    return pa.field(physical_name(field), _stored_type(field["type"]), metadata=facts)


def _stored_type(kind: str | Mapping[str, Any]) -> pa.DataType:
    if isinstance(kind, str):
        return _logical(kind)
    if kind["type"] == "struct":
        return pa.struct([_stored(f) for f in kind["fields"]])
    if kind["type"] == "array":
        return pa.list_(_stored_type(kind["elementType"]))
    return pa.map_(_stored_type(kind["keyType"]), _stored_type(kind["valueType"]))


def _named(held: pa.DataType, kind: str | Mapping[str, Any]) -> pa.DataType:
    """The type of a column in a file, with the names that the table has now for the fields of structs."""
    if isinstance(kind, str):
        return held
    if kind["type"] == "struct":
        names = {physical_name(f): f for f in kind["fields"]}
        return pa.struct([_renamed(part, names.get(part.name)) for part in held])
    if kind["type"] == "array":
        return pa.list_(_named(held.value_type, kind["elementType"]))
    return pa.map_(_named(held.key_type, kind["keyType"]), _named(held.item_type, kind["valueType"]))


def _renamed(part: pa.Field, field: Mapping[str, Any] | None) -> pa.Field:
    """A struct's field under its present name; a dropped one keeps its physical name."""
    return part if field is None else pa.field(field["name"], _named(part.type, field["type"]))
