"""Types and schemas of tables: which changes of a type lose no value, and the SQL statements for them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from pyspark.sql import types as T

from kedro_lakehouse.changes.conversion import lossless, same_type, sql_type
from kedro_lakehouse.errors import IncompatibleTypeError, MissingColumnError, UnsupportedError
from kedro_lakehouse.formats.literals import parts_of_transform
from kedro_lakehouse.names import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from kedro_lakehouse.formats.base import Layout
    from kedro_lakehouse.names import TableName

Path = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Clash:
    """The part of a column whose existing and incoming type have no common type: its path and both types."""

    path: Path
    existing: T.DataType
    incoming: T.DataType

    @property
    def column(self) -> str:
        """The column with the path to the part, such as ``address.zip``."""
        return ".".join(self.path)

    @property
    def reason(self) -> str:
        """Why the format refuses a change that would lose no value; empty if values would be lost."""
        if lossless(self.existing, self.incoming):
            was, is_ = self.existing.simpleString(), self.incoming.simpleString()
            return f"Iceberg cannot make a {was} column a {is_}"
        return ""

    def error(self, table: TableName, **place: str) -> IncompatibleTypeError:
        """The error that refuses the incoming type; it may name the ``place`` that the type comes from."""
        return IncompatibleTypeError(
            table=table,
            column=self.column,
            existing=self.existing.simpleString(),
            incoming=self.incoming.simpleString(),
            reason=self.reason,
            **place,
        )


_TIMES: Final = (T.TimestampType, T.TimestampNTZType)
_OF_TIMES: Final[Mapping[str, tuple[type[T.DataType], ...]]] = {
    **dict.fromkeys(("years", "months", "days"), (T.DateType, *_TIMES)),
    "hours": _TIMES,
}
"""The types that the partition transforms of times take."""


def storable(kind: T.DataType) -> T.DataType:
    """The type in which Iceberg stores a value: no small integers, no null type, all parts nullable."""
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


def widened(existing: T.DataType, incoming: T.DataType) -> T.DataType | None:
    """The type that holds the values of both without loss; None if Iceberg cannot change to such a type.

    A struct keeps its fields in their order and gets those that it lacks.
    """
    merged = _merged((), existing, incoming)
    return None if isinstance(merged, Clash) else merged


def clash(column: str, existing: T.DataType, incoming: T.DataType) -> Clash | None:
    """The first part of a column for which ``widened`` finds no type; None if it finds one for all."""
    merged = _merged((column,), existing, incoming)
    return merged if isinstance(merged, Clash) else None


def _merged(  # noqa: PLR0911 - one a kind of type
    path: Path, existing: T.DataType, incoming: T.DataType
) -> T.DataType | Clash:
    if isinstance(incoming, T.NullType):
        return storable(existing)
    existing, incoming = storable(existing), storable(incoming)
    if isinstance(existing, T.StructType) and isinstance(incoming, T.StructType):
        return _merged_structs(path, existing, incoming)
    if isinstance(existing, T.ArrayType) and isinstance(incoming, T.ArrayType):
        element = _merged((*path, "element"), existing.elementType, incoming.elementType)
        return element if isinstance(element, Clash) else T.ArrayType(element)
    if isinstance(existing, T.MapType) and isinstance(incoming, T.MapType):
        # The type of a map's keys never changes, because Iceberg compares keys.
        if not lossless(incoming.keyType, existing.keyType):
            return Clash(path=(*path, "key"), existing=existing.keyType, incoming=incoming.keyType)
        value = _merged((*path, "value"), existing.valueType, incoming.valueType)
        return value if isinstance(value, Clash) else T.MapType(existing.keyType, value)
    if lossless(incoming, existing):
        return existing
    if lossless(existing, incoming) and _promotes(existing, incoming):
        return incoming
    return Clash(path=path, existing=existing, incoming=incoming)


def _merged_structs(path: Path, existing: T.StructType, incoming: T.StructType) -> T.StructType | Clash:
    fields = {f.name: f.dataType for f in existing.fields}
    for field in incoming.fields:
        held = fields.get(field.name)
        merged = field.dataType if held is None else _merged((*path, field.name), held, field.dataType)
        if isinstance(merged, Clash):
            return merged
        fields[field.name] = merged
    return T.StructType([T.StructField(name, kind) for name, kind in fields.items()])


def _promotes(existing: T.DataType, incoming: T.DataType) -> bool:
    """Whether a column of an Iceberg table can change from the existing to the incoming type."""
    if isinstance(existing, T.DecimalType) and isinstance(incoming, T.DecimalType):
        return existing.scale == incoming.scale
    return (type(existing), type(incoming)) in {(T.IntegerType, T.LongType), (T.FloatType, T.DoubleType)}


def case_clash(names: Iterable[str], kinds: Mapping[str, T.DataType]) -> tuple[str, str] | None:
    """Two columns, or two fields of one struct, whose names differ only in case; None if there are none."""
    seen: dict[str, str] = {}
    for name in names:
        other = seen.setdefault(name.lower(), name)
        if other != name:
            return other, name
    for name, kind in kinds.items():
        for struct in _structs(kind):
            if found := case_clash(struct.fieldNames(), {f.name: f.dataType for f in struct.fields}):
                return f"{name}.{found[0]}", f"{name}.{found[1]}"
    return None


def _structs(kind: T.DataType) -> Iterator[T.StructType]:
    if isinstance(kind, T.StructType):
        yield kind
    elif isinstance(kind, T.ArrayType):
        yield from _structs(kind.elementType)
    elif isinstance(kind, T.MapType):
        yield from _structs(kind.keyType)
        yield from _structs(kind.valueType)


@dataclass(frozen=True, kw_only=True)
class SchemaChange:
    """A column, or a part of one, that is added to a table or gets another type."""

    what: Literal["add", "widen"]
    path: Path
    kind: T.DataType

    @property
    def sql(self) -> str:
        """The path, quoted."""
        return quote(*self.path)


def schema_changes(
    existing: Mapping[str, T.DataType], wanted: Mapping[str, T.DataType]
) -> list[SchemaChange]:
    """The changes after which a table with the columns ``existing`` can hold ``wanted`` as well.

    The types of ``wanted`` are those that ``widened`` found.
    """
    return _changes((), table_schema(existing), table_schema(wanted))


def wider_columns(
    table: TableName, existing: Mapping[str, T.DataType], columns: Mapping[str, T.DataType]
) -> dict[str, T.DataType]:
    """``columns`` with types that hold both the values that the table has and the new ones.

    Raises:
        IncompatibleTypeError: A column would have to become a type that loses values.
    """
    wanted = dict(columns)
    for name, kind in existing.items():
        if name not in columns:
            continue
        wider = _merged((name,), kind, columns[name])
        if isinstance(wider, Clash):
            raise wider.error(table)
        wanted[name] = wider
    return wanted


def evolve_table(
    sql: Callable[[str], object],
    path: str,
    table: TableName,
    columns: Mapping[str, T.DataType],
    existing: Mapping[str, T.DataType],
) -> None:
    """Add missing columns and struct fields and widen types by SQL statements; existing columns stay.

    Args:
        sql: Runs a statement.
        path: The table's quoted path.
        table: The table's name, for errors.
        columns: The columns that the table must hold afterwards.
        existing: The columns that it has now.

    Raises:
        IncompatibleTypeError: A column would have to become a type that loses values.
    """
    changes = schema_changes(existing, wider_columns(table, existing, columns))
    if added := [f"{c.sql} {sql_type(c.kind)}" for c in changes if c.what == "add"]:
        sql(f"ALTER TABLE {path} ADD COLUMNS ({', '.join(added)})")
    for change in changes:
        if change.what == "widen":
            sql(f"ALTER TABLE {path} ALTER COLUMN {change.sql} TYPE {sql_type(change.kind)}")


def rename_in_table(run: Callable[[str], object], place: str, names: Mapping[str, str]) -> None:
    """Rename columns of a table; ``place`` is its quoted name."""
    for old, new in names.items():
        run(f"ALTER TABLE {place} RENAME COLUMN {quote(old)} TO {quote(new)}")


def _changes(path: Path, existing: T.DataType, wanted: T.DataType) -> list[SchemaChange]:
    if isinstance(existing, T.StructType) and isinstance(wanted, T.StructType):
        held = {f.name: f.dataType for f in existing.fields}
        found: list[SchemaChange] = []
        for field in wanted.fields:
            here = (*path, field.name)
            if field.name in held:
                found += _changes(here, held[field.name], field.dataType)
            else:
                found.append(SchemaChange(what="add", path=here, kind=field.dataType))
        return found
    if isinstance(existing, T.ArrayType) and isinstance(wanted, T.ArrayType):
        return _changes((*path, "element"), existing.elementType, wanted.elementType)
    if isinstance(existing, T.MapType) and isinstance(wanted, T.MapType):
        return _changes((*path, "value"), existing.valueType, wanted.valueType)
    return [] if same_type(existing, wanted) else [SchemaChange(what="widen", path=path, kind=wanted)]


def table_schema(columns: Mapping[str, T.DataType]) -> T.StructType:
    """A schema of nullable columns."""
    return T.StructType([T.StructField(name, storable(kind)) for name, kind in columns.items()])


def refuse_layout(table: TableName, columns: Mapping[str, T.DataType], layout: Layout) -> None:
    """Refuse partitions and a sort order of a new table that its columns do not allow.

    Raises:
        MissingColumnError: The table will have no such column.
        UnsupportedError: A part of time is asked of a column that is no time.
    """
    parts = [parts_of_transform(text) for text in layout.partition_by]
    named = {"partition_by": [source for *_, source in parts], "sort_by": list(layout.sort_by)}
    kinds = {name.lower(): kind for name, kind in columns.items()}  # Spark ignores the case
    for key, names in named.items():
        if missing := [name for name in names if name.lower() not in kinds]:
            raise MissingColumnError(
                table=table, missing=missing, found=list(columns), place=f"the table, for {key}"
            )
    for name, _, source in parts:
        kind = kinds[source.lower()]
        if name in _OF_TIMES and not isinstance(kind, _OF_TIMES[name]):
            raise UnsupportedError(
                what=f"{table}: {name}({source}) needs a time, and {source} is {kind.simpleString()}.",
                remedy=f"Declare the type of {source} under `types`, or correct `partition_by`.",
            )
