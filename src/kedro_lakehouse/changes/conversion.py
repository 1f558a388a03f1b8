"""Convert source values to a table's types: structs field by field, and never by a cast that can fail."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import UNSET, column, columns
from kedro_lakehouse.names import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

_NESTED: Final = (T.StructType, T.ArrayType, T.MapType)
_DIGITS: Final[dict[type[T.DataType], int]] = {
    T.ByteType: 3,
    T.ShortType: 5,
    T.IntegerType: 10,
    T.LongType: 19,
}
MISFIT: Final = "__misfit"
"""Column that few readers add: the source columns whose value is not of the type that they read it as."""
_DOUBLE_HOLDS: Final = 10  # digits of the largest integer type of which a double holds every value
_FAMILIES: Final[dict[str, frozenset[str]]] = {
    "string": frozenset({"string", "boolean", "number", "date", "timestamp", "timestamp_ntz", "binary"}),
    "boolean": frozenset({"string", "boolean", "number"}),
    "number": frozenset({"string", "boolean", "number", "timestamp"}),
    "date": frozenset({"string", "date", "timestamp", "timestamp_ntz"}),
    "timestamp": frozenset({"string", "number", "date", "timestamp", "timestamp_ntz"}),
    "timestamp_ntz": frozenset({"string", "date", "timestamp", "timestamp_ntz"}),
    "binary": frozenset({"string", "binary"}),
}
"""Which simple types Spark casts to which, as families."""


def sql_type(kind: T.DataType) -> str:
    """The SQL text of a type, with the names of nested fields quoted."""
    if isinstance(kind, T.StructType):
        return "struct<" + ", ".join(f"{quote(f.name)}: {sql_type(f.dataType)}" for f in kind.fields) + ">"
    if isinstance(kind, T.ArrayType):
        return f"array<{sql_type(kind.elementType)}>"
    if isinstance(kind, T.MapType):
        return f"map<{sql_type(kind.keyType)}, {sql_type(kind.valueType)}>"
    return kind.simpleString()


def same_type(one: T.DataType, other: T.DataType) -> bool:
    """Whether two types are the same but for what may be null."""
    return one.simpleString() == other.simpleString()


def lossless(small: T.DataType, large: T.DataType) -> bool:
    """Whether a simple type holds every value of another one, so that a cast to it loses nothing."""
    if same_type(small, large):
        return True
    digits = _DIGITS.get(type(small))
    if isinstance(large, T.DecimalType):
        if isinstance(small, T.DecimalType):
            whole = small.precision - small.scale
            return small.scale <= large.scale and whole <= large.precision - large.scale
        return digits is not None and digits <= large.precision - large.scale
    if digits is not None and type(large) in _DIGITS:
        return digits <= _DIGITS[type(large)]
    if isinstance(large, T.DoubleType):
        return isinstance(small, T.FloatType) or (digits is not None and digits <= _DOUBLE_HOLDS)
    return isinstance(small, T.DateType) and isinstance(large, T.TimestampType | T.TimestampNTZType)


def castable(have: T.DataType, want: T.DataType) -> bool:
    """Whether one type can be cast to another at all, even if some of its values do not fit."""
    if isinstance(have, T.StructType) and isinstance(want, T.StructType):
        there = {f.name: f.dataType for f in have.fields}
        return all(castable(there[f.name], f.dataType) for f in want.fields if f.name in there)
    if isinstance(have, T.ArrayType) and isinstance(want, T.ArrayType):
        return castable(have.elementType, want.elementType)
    if isinstance(have, T.MapType) and isinstance(want, T.MapType):
        return lossless(have.keyType, want.keyType) and castable(have.valueType, want.valueType)
    if isinstance(have, _NESTED):
        return isinstance(want, T.StringType)
    if isinstance(have, T.NullType):
        return True
    return not isinstance(want, _NESTED) and _family(want) in _FAMILIES.get(_family(have), ())


def _family(kind: T.DataType) -> str:
    return "number" if isinstance(kind, T.NumericType) else kind.typeName()


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """How one source column becomes a table column: its name and type there, its name and type here.

    ``source_kind`` is text where it is not given; ``date_format`` and ``timestamp_format`` are the
    patterns of text sources; ``base64``: their texts of bytes are in base64. A text equal to the
    ``unset_marker`` means that the value was not sent.
    """

    source: str
    name: str
    kind: T.DataType
    same_type: bool
    source_kind: T.DataType | None = None
    date_format: str | None = None
    timestamp_format: str | None = None
    base64: bool = False
    unset_marker: str | None = None

    def value(self) -> Column:
        """The converted value; null where it was not sent or cannot be read as the table's type."""
        if self._reads_json:
            value = self._of_json()
        elif self.same_type:
            value = column(self.source)
        else:
            value = F.expr(self._value(quote(self.source), self._have, self.kind, 0))
        unset = self.unset()
        return value if unset is None else F.when(~unset, value)

    def unset(self) -> Column | None:
        """True where the source says that the value was not sent; None where it cannot say so."""
        if self.unset_marker is None or not isinstance(self._have, T.StringType):
            return None
        return column(self.source).eqNullSafe(F.lit(self.unset_marker))

    def failed(self) -> Column:
        """True where a source value, or a part of it, is present but cannot be read as the table's type."""
        unset = self.unset()
        if self._reads_json:
            failure = column(self.source).isNotNull() & self._of_json().isNull()
        else:
            text = None if self.same_type else self._failure(quote(self.source), self._have, self.kind, 0)
            if text is None:
                return F.lit(False)
            failure = F.expr(text)
        return failure if unset is None else failure & ~unset

    @property
    def _reads_json(self) -> bool:
        return isinstance(self._have, T.StringType) and isinstance(self.kind, _NESTED)

    def _of_json(self) -> Column:
        """JSON text read as a nested type; null where any part of it does not fit."""
        corrupt = T.StructField("__corrupt", T.StringType())
        wanted = T.StructType([T.StructField("v", self.kind), corrupt])
        text = F.concat(F.lit('{"v":'), column(self.source), F.lit("}"))
        read = F.from_json(text, wanted, {"columnNameOfCorruptRecord": "__corrupt"})
        return F.when(read["__corrupt"].isNull(), read["v"])

    @property
    def _have(self) -> T.DataType:
        if self.source_kind is not None:
            return self.source_kind
        return self.kind if self.same_type else T.StringType()

    # As SQL text: before Spark 4 only SQL has try_cast, and an element of an array has a name only inside
    # the lambda that walks over the array.
    def _value(self, raw: str, have: T.DataType, want: T.DataType, depth: int) -> str:  # noqa: PLR0911 - one a kind of type
        part = f"__part{depth}"
        if same_type(have, want):
            return raw
        if not castable(have, want):
            return f"CAST(NULL AS {sql_type(want)})"
        if isinstance(have, T.StructType) and isinstance(want, T.StructType):
            there = {f.name: f.dataType for f in have.fields}
            parts = [
                self._value(f"{raw}.{quote(f.name)}", there[f.name], f.dataType, depth)
                if f.name in there
                else f"CAST(NULL AS {sql_type(f.dataType)})"
                for f in want.fields
            ]
            fields = [f"{_literal(f.name)}, {p}" for f, p in zip(want.fields, parts, strict=True)]
            return f"IF({raw} IS NULL, NULL, named_struct({', '.join(fields)}))"
        if isinstance(have, T.ArrayType) and isinstance(want, T.ArrayType):
            inner = self._value(part, have.elementType, want.elementType, depth + 1)
            return f"transform({raw}, {part} -> {inner})"
        if isinstance(have, T.MapType) and isinstance(want, T.MapType):
            key = self._value(f"{part}.key", have.keyType, want.keyType, depth + 1)
            inner = self._value(f"{part}.value", have.valueType, want.valueType, depth + 1)
            return f"map_from_entries(transform(map_entries({raw}), {part} -> struct({key}, {inner})))"
        if isinstance(have, _NESTED):
            return f"to_json({raw})"
        return self._simple(raw, have, want)

    def _simple(self, raw: str, have: T.DataType, want: T.DataType) -> str:
        kind = want.simpleString()
        if isinstance(have, T.StringType):
            if kind == "date" and self.date_format:
                return f"to_date(try_to_timestamp({raw}, {_literal(self.date_format)}))"
            if kind.startswith("timestamp") and self.timestamp_format:
                return f"CAST(try_to_timestamp({raw}, {_literal(self.timestamp_format)}) AS {kind})"
            if kind == "binary" and self.base64:
                return f"try_to_binary({raw}, 'base64')"
        return f"try_cast({raw} AS {kind})"

    def _failure(self, raw: str, have: T.DataType, want: T.DataType, depth: int) -> str | None:
        """The SQL condition under which a part of a value is lost; None where nothing can be lost."""
        part = f"__part{depth}"
        if isinstance(have, T.StructType) and isinstance(want, T.StructType):
            there = {f.name: f.dataType for f in have.fields}
            fields = [f for f in want.fields if f.name in there]
            found = [
                self._failure(f"{raw}.{quote(f.name)}", there[f.name], f.dataType, depth) for f in fields
            ]
            lost = [text for text in found if text]
            return f"({' OR '.join(lost)})" if lost else None
        inner, walked = None, raw
        if isinstance(have, T.ArrayType) and isinstance(want, T.ArrayType):
            inner = self._failure(part, have.elementType, want.elementType, depth + 1)
        elif isinstance(have, T.MapType) and isinstance(want, T.MapType):
            inner = self._failure(part, have.valueType, want.valueType, depth + 1)
            walked = f"map_values({raw})"
        elif not lossless(have, want):
            return f"({raw} IS NOT NULL AND {self._value(raw, have, want, depth)} IS NULL)"
        return f"coalesce(exists({walked}, {part} -> {inner}), false)" if inner else None


def _literal(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def convert(frame: DataFrame, conversions: Sequence[Conversion], *, keep: Sequence[str]) -> DataFrame:
    """Rename and cast source columns to the table's; of several sources of one column take the first present.

    Adds ``__failed``: the names of columns whose value could not be cast; where the table has an
    unset marker also ``_unset``: the sorted names of columns that were not sent, null where all were.
    """
    by_name: dict[str, list[Conversion]] = {}
    for conversion in conversions:
        by_name.setdefault(conversion.name, []).append(conversion)
    values = [_first_present(group).alias(name) for name, group in by_name.items()]
    failed = [F.when(c.failed(), F.lit(c.name)) for c in conversions if not c.same_type]
    lost = _names(failed)
    if MISFIT in frame.columns:
        given = {c.source: c.name for c in conversions}
        lost = F.array_distinct(F.concat(lost, *[_misfit(source, name) for source, name in given.items()]))
    facts = [lost.alias("__failed")]
    if any(c.unset_marker is not None for c in conversions):
        held = [(name, _first_unset(by_name[name])) for name in sorted(by_name)]
        unset = _names([F.when(is_unset, F.lit(n)) for n, is_unset in held if is_unset is not None])
        facts.append(F.when(F.size(unset) > 0, unset).alias(UNSET))
    return frame.select(*columns(keep), *values, *facts)


def _misfit(source: str, name: str) -> Column:
    """The column's name in an array where a reader could not read its source column."""
    return F.when(F.array_contains(MISFIT, F.lit(source)), F.array(F.lit(name))).otherwise(
        F.array().cast("array<string>")
    )


def _names(found: Sequence[Column]) -> Column:
    if not found:
        return F.array().cast("array<string>")
    return F.filter(F.array(*found), lambda name: name.isNotNull())


def _first_present(group: Sequence[Conversion]) -> Column:
    if len(group) == 1:
        return group[0].value()
    value, unset = F.coalesce(*[c.value() for c in group]), _first_unset(group)
    return value if unset is None else F.when(~unset, value)


def _first_unset(group: Sequence[Conversion]) -> Column | None:
    """Whether the first source column that holds anything says that the value was not sent."""
    said = [c.unset() for c in group]
    if all(unset is None for unset in said):
        return None
    held = [
        F.when(column(c.source).isNotNull(), F.lit(False) if unset is None else unset)
        for c, unset in zip(group, said, strict=True)
    ]
    return F.coalesce(*held, F.lit(False))
