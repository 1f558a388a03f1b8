"""A canonical text of rows, and the keys and digests that are computed from it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import column
from kedro_lakehouse.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import Column, DataFrame

SURROGATE_KEY: Final = "_surrogate_key"
"""Column of a history with a key of each version, where its view declares one."""

_NULL: Final = "n"


def canonical_text(columns: Sequence[Column], types: Sequence[T.DataType]) -> Column:
    """One text for each row of values; two rows have the same text if and only if they are equal.

    Every value is written as its kind's letter, its length in bytes and its own text, so that no value
    can run into the next one, and null is a letter of its own. Integers of every width are one kind, and
    so are floats and doubles, and decimals of every precision and scale: a widened column keeps its
    texts. The name of a column is no part of it, neither is the order of a map's entries. For example, the
    integer 12 and a null have the text ``i2:12n``.

    Raises:
        UnsupportedError: A column has a type that has no such text.

    Source:
        Contract section 7.
    """
    return F.concat(F.lit(""), *[_tagged(c, t) for c, t in zip(columns, types, strict=True)])


def surrogate_key(frame: DataFrame, keys: Sequence[str], order_column: str = "_order_from") -> Column:
    """A signed 64-bit key of each row of a history, made of its key and the order that opened it.

    It is the same in every run and after every rebuild of the table, and does not change where a key
    column is widened. Two versions may get the same key by chance: the odds are n * n / 2**65,
    that is 3 in 100 million for a million versions, and 3 in ten thousand for a hundred million.
    """
    kinds = {f.name: f.dataType for f in frame.schema.fields}
    names = [*keys, order_column]
    return F.xxhash64(canonical_text([column(n) for n in names], [kinds[n] for n in names]))


def _tagged(value: Column, kind: T.DataType) -> Column:
    tag, text = _text(value, kind)
    sized = F.concat(F.lit(tag), F.octet_length(text).cast("string"), F.lit(":"), text)
    return F.when(value.isNull(), F.lit(_NULL)).otherwise(sized)


def _text(value: Column, kind: T.DataType) -> tuple[str, Column]:
    """The letter of a kind, and the text of a value among those of its kind."""
    if isinstance(kind, T.StructType):
        fields = [value.getField(f.name) for f in kind.fields]
        return "S", canonical_text(fields, [f.dataType for f in kind.fields])
    if isinstance(kind, T.ArrayType):
        return "A", F.concat_ws("", F.transform(value, _each(kind.elementType)))
    if isinstance(kind, T.MapType):
        pair = T.StructType([T.StructField("key", kind.keyType), T.StructField("value", kind.valueType)])
        return "M", F.concat_ws("", F.array_sort(F.transform(F.map_entries(value), _each(pair))))
    for kinds, tag, text in _SIMPLE:
        if isinstance(kind, kinds):
            return tag, text(value)
    raise UnsupportedError(
        what=f"A digest of a column of type {kind.simpleString()}.",
        remedy="Leave the column out, or declare another type for it.",
    )


def _each(kind: T.DataType) -> Callable[[Column], Column]:
    return lambda value: _tagged(value, kind)


def _string(value: Column) -> Column:
    return value.cast("string")


def _decimal(value: Column) -> Column:
    """A decimal as text, without the trailing zeros that come from the column's scale."""
    text = value.cast("string")
    return F.when(text.contains("."), F.regexp_replace(text, r"\.?0+$", "")).otherwise(text)


def _floating(value: Column) -> Column:
    """A floating number as text; adding zero turns -0.0 into 0.0."""
    return (value.cast("double") + F.lit(0.0)).cast("string")


_SIMPLE: Final[tuple[tuple[tuple[type[T.DataType], ...], str, Callable[[Column], Column]], ...]] = (
    ((T.ByteType, T.ShortType, T.IntegerType, T.LongType), "i", _string),
    ((T.StringType, T.VarcharType, T.CharType), "s", _string),
    ((T.DecimalType,), "d", _decimal),
    ((T.FloatType, T.DoubleType), "f", _floating),
    ((T.BooleanType,), "b", _string),
    ((T.DateType,), "D", _string),
    ((T.TimestampType,), "t", lambda value: F.unix_micros(value).cast("string")),
    ((T.TimestampNTZType,), "T", _string),
    ((T.BinaryType,), "x", F.hex),
    ((T.NullType,), _NULL, _string),
)
