"""Values as Spark can compare and order them: maps, which it cannot, as their sorted entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

if TYPE_CHECKING:
    from pyspark.sql import Column


def comparable(value: Column, kind: T.DataType) -> Column:
    """Give a value of a type the form in which ``<=>`` and ordering see all of it, at any depth."""
    if not holds_map(kind):
        return value
    if isinstance(kind, T.StructType):
        fields = [comparable(value[f.name], f.dataType).alias(f.name) for f in kind.fields]
        return F.when(value.isNotNull(), F.struct(*fields))
    if isinstance(kind, T.ArrayType):
        return F.transform(value, lambda part: comparable(part, kind.elementType))
    assert isinstance(kind, T.MapType)  # noqa: S101 - the last kind that holds a map
    pairs = F.transform(
        F.map_entries(value),
        lambda e: F.struct(e["key"].alias("key"), comparable(e["value"], kind.valueType).alias("value")),
    )
    return F.sort_array(pairs)


def holds_map(kind: T.DataType) -> bool:
    """Whether a type is a map or has one in it."""
    if isinstance(kind, T.StructType):
        return any(holds_map(f.dataType) for f in kind.fields)
    return isinstance(kind, T.MapType) or (isinstance(kind, T.ArrayType) and holds_map(kind.elementType))
