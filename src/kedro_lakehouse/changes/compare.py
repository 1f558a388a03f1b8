"""Make values comparable: a map, which Spark cannot compare, becomes the list of its sorted entries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import column

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame


def comparable(value: Column, kind: T.DataType) -> Column:
    """A value that Spark can compare in place of this one, null-safe; without maps it is the value itself."""
    if not _holds_map(kind):
        return value
    if isinstance(kind, T.MapType):
        entries = T.StructType([T.StructField("key", kind.keyType), T.StructField("value", kind.valueType)])
        return F.sort_array(F.transform(F.map_entries(value), lambda entry: comparable(entry, entries)))
    if isinstance(kind, T.ArrayType):
        return F.transform(value, lambda element: comparable(element, kind.elementType))
    fields = kind.fields if isinstance(kind, T.StructType) else []
    parts = [comparable(value[f.name], f.dataType).alias(f.name) for f in fields]
    return F.when(value.isNotNull(), F.struct(*parts))


def comparable_row(frame: DataFrame, names: Iterable[str]) -> Column:
    """Columns of a frame as one struct that can be compared and ordered."""
    kinds = {f.name: f.dataType for f in frame.schema.fields}
    return F.struct(*[comparable(column(n), kinds[n]).alias(f"c{i}") for i, n in enumerate(names)])


def _holds_map(kind: T.DataType) -> bool:
    if isinstance(kind, T.ArrayType):
        return _holds_map(kind.elementType)
    if isinstance(kind, T.StructType):
        return any(_holds_map(f.dataType) for f in kind.fields)
    return isinstance(kind, T.MapType)
