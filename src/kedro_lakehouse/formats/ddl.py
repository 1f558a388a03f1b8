"""Types and schemas of tables: as SQL text, and which changes of a type lose nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as T

from kedro_lakehouse.names import quote

if TYPE_CHECKING:
    from collections.abc import Mapping


def sql_type(kind: T.DataType) -> str:
    """The SQL text of a type, with the names of nested fields quoted."""
    if isinstance(kind, T.StructType):
        return "struct<" + ", ".join(f"{quote(f.name)}: {sql_type(f.dataType)}" for f in kind.fields) + ">"
    if isinstance(kind, T.ArrayType):
        return f"array<{sql_type(kind.elementType)}>"
    if isinstance(kind, T.MapType):
        return f"map<{sql_type(kind.keyType)}, {sql_type(kind.valueType)}>"
    return kind.simpleString()


def storable(kind: T.DataType) -> T.DataType:
    """The type in which Iceberg keeps a value: no small integers, no null type, all parts nullable."""
    if isinstance(kind, T.StructType):
        return T.StructType([T.StructField(f.name, storable(f.dataType)) for f in kind.fields])
    if isinstance(kind, T.ArrayType):
        return T.ArrayType(storable(kind.elementType))
    if isinstance(kind, T.MapType):
        return T.MapType(storable(kind.keyType), storable(kind.valueType))
    if isinstance(kind, T.ByteType | T.ShortType):
        return T.IntegerType()
    if isinstance(kind, T.NullType | T.VarcharType | T.CharType):
        return T.StringType()
    return kind


_INTEGER_DIGITS: dict[type[T.DataType], int] = {T.IntegerType: 10, T.LongType: 19}


def widened(existing: T.DataType, incoming: T.DataType) -> T.DataType | None:  # noqa: PLR0911 - a table of cases
    """The type that holds the values of both without loss; None where Iceberg cannot become such a type."""
    if storable(existing) == storable(incoming):
        return existing
    pair = (type(existing), type(incoming))
    if pair in {(T.IntegerType, T.LongType), (T.LongType, T.IntegerType)}:
        return T.LongType()
    if pair in {(T.FloatType, T.DoubleType), (T.DoubleType, T.FloatType)}:
        return T.DoubleType()
    if isinstance(existing, T.DecimalType) and isinstance(incoming, T.DecimalType):
        if existing.scale == incoming.scale:
            return existing if existing.precision >= incoming.precision else incoming
        return existing if _fits(incoming, existing) else None
    if isinstance(existing, T.DecimalType) and type(incoming) in _INTEGER_DIGITS:
        return existing if existing.precision - existing.scale >= _INTEGER_DIGITS[type(incoming)] else None
    if pair == (T.DoubleType, T.IntegerType):
        return existing
    return None


def _fits(small: T.DecimalType, large: T.DecimalType) -> bool:
    return small.scale <= large.scale and small.precision - small.scale <= large.precision - large.scale


def table_schema(columns: Mapping[str, T.DataType]) -> T.StructType:
    """A schema of nullable columns."""
    return T.StructType([T.StructField(name, storable(kind)) for name, kind in columns.items()])
