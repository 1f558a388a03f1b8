"""Translate Arrow types into those that Spark reads them as."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from pyspark.sql import types as T

_READ_AS: Final[dict[pa.DataType, pa.DataType]] = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
    pa.string_view(): pa.string(),
    pa.binary_view(): pa.binary(),
    pa.large_string(): pa.string(),
    pa.large_binary(): pa.binary(),
}


def as_spark_reads(schema: pa.Schema) -> pa.Schema:
    """Replace types that only Arrow distinguishes, or that Spark widens, at any depth.

    Source:
        Parquet's logical types; Spark reads an unsigned integer as the next wider signed type.
    """
    return pa.schema([pa.field(f.name, _read_as(f.type)) for f in schema])


def spark_types(schema: pa.Schema) -> dict[str, T.DataType]:
    """Spark's type of each column of a schema."""
    from pyspark.sql.pandas.types import from_arrow_schema

    read = from_arrow_schema(as_spark_reads(schema), prefer_timestamp_ntz=True)
    return {field.name: field.dataType for field in read.fields}


def unread_by_spark(schema: pa.Schema) -> pa.Field | None:
    """The first column with a type, at any depth, that Spark reads from no parquet file; None without one.

    Source:
        Spark 4.1 and 3.5, tried: times of day, durations, floating-point numbers of two bytes.
    """
    return next((field for field in schema if _is_unread(field.type)), None)


def _is_unread(kind: pa.DataType) -> bool:
    if pa.types.is_nested(kind):
        return any(_is_unread(kind.field(i).type) for i in range(kind.num_fields))
    return bool(pa.types.is_time(kind) or pa.types.is_duration(kind) or pa.types.is_float16(kind))


def _read_as(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        return _read_as(kind.value_type)
    if pa.types.is_struct(kind):
        # Keeps each field's metadata: PySpark 4 reads it if a field is named like one of a geometry's.
        return pa.struct([f.with_type(_read_as(f.type)) for f in kind])
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(_read_as(kind.value_type))
    if pa.types.is_map(kind):
        return pa.map_(_read_as(kind.key_type), _read_as(kind.item_type))
    return _READ_AS.get(kind, kind)
