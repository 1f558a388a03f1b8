"""Which columns a table is to have: declared, already there, or told by self-describing files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as T

from kedro_lakehouse.changes.events import EVENT_COLUMNS
from kedro_lakehouse.decoders.records import Columns
from kedro_lakehouse.errors import (
    IncompatibleTypeError,
    MissingColumnError,
    ReservedColumnError,
    UnsupportedError,
)
from kedro_lakehouse.formats.ddl import storable, widened
from kedro_lakehouse.names import is_reserved_column

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.sources.base import FileSource
    from kedro_lakehouse.sources.files import FileShape


def resolve_columns(
    name: TableName,
    table: TableConfig,
    source: FileSource,
    shapes: Sequence[FileShape],
    existing: Mapping[str, T.DataType],
) -> Columns:
    """Settle the table's columns for a batch before anything of it is written.

    Raises:
        MissingColumnError: A file with rows lacks a key column.
        IncompatibleTypeError: A file's type loses values in the table's, and none holds both.
        ReservedColumnError: A column has a name of the framework and is not renamed.
        UnsupportedError: Two columns differ only in case.
    """
    seen = [n for shape in shapes for n, _ in shape.columns]
    named = {*table.order_by, *filter(None, [table.effective_time])}
    told = source.control(seen)
    control = frozenset(c for c in told if table.rename.get(c, c) not in named)
    declared = {c: storable(_parse(text)) for c, text in table.types.items()}
    types = {c: t for c, t in existing.items() if c not in EVENT_COLUMNS}
    for shape in shapes:
        kept = {
            n: t
            for n, t in shape.columns
            if table.rename.get(n, n) in named or (n not in control and _kept(n, table))
        }
        _require_keys(name, table, kept, shape)
        for source_name, kind in kept.items():
            column = table.rename.get(source_name, source_name)
            if column in declared:
                types[column] = declared[column]
            elif not shape.self_describing:
                types.setdefault(column, storable(kind))
            elif shape.has_rows:
                types[column] = _joined(name, column, types.get(column), storable(kind), shape)
    for column, kind in declared.items():
        if column in existing and widened(existing[column], kind) is None:
            raise IncompatibleTypeError(
                table=name, column=column, existing=existing[column].simpleString(),
                incoming=kind.simpleString(), place="tables.yml",
            )  # fmt: skip
    _refuse_names(name, types)
    if missing := sorted(named - types.keys()):
        raise MissingColumnError(
            table=name, missing=missing, found=sorted(types), place="order_by, effective_time"
        )
    stored = {table.rename.get(n, n) for n in seen if n not in told and _kept(n, table)}
    csv = source.options["changes"]
    return Columns(
        types=types, rename=table.rename, control=control, date_format=csv.date_format,
        timestamp_format=csv.timestamp_format, carried=frozenset(named - stored - existing.keys()),
    )  # fmt: skip


def _parse(text: str) -> T.DataType:
    return T._parse_datatype_string(text) if text.startswith(("array", "map", "struct")) else _simple(text)  # noqa: SLF001


def _simple(text: str) -> T.DataType:
    from pyspark.sql.types import DecimalType

    word, _, rest = text.lower().partition("(")
    if word in ("decimal", "dec", "numeric"):
        precision, _, scale = rest.rstrip(")").partition(",")
        return DecimalType(int(precision or 10), int(scale or 0))
    return {
        "string": T.StringType(), "boolean": T.BooleanType(), "byte": T.IntegerType(),
        "tinyint": T.IntegerType(), "short": T.IntegerType(), "smallint": T.IntegerType(),
        "int": T.IntegerType(), "integer": T.IntegerType(),
        "long": T.LongType(), "bigint": T.LongType(), "float": T.FloatType(), "real": T.FloatType(),
        "double": T.DoubleType(), "date": T.DateType(), "timestamp": T.TimestampType(),
        "timestamp_ltz": T.TimestampType(), "timestamp_ntz": T.TimestampNTZType(), "binary": T.BinaryType(),
    }[word.strip()]  # fmt: skip


def _kept(source_name: str, table: TableConfig) -> bool:
    chosen, column = table.columns, table.rename.get(source_name, source_name)
    if chosen is None:
        return True
    if chosen.include is not None:
        return column in chosen.include or column in table.keys
    return column not in (chosen.exclude or ())


def _require_keys(name: TableName, table: TableConfig, kept: Iterable[str], shape: FileShape) -> None:
    names = {table.rename.get(n, n) for n in kept}
    missing = [k for k in table.keys if k not in names]
    if missing and shape.has_rows is not False:
        raise MissingColumnError(table=name, missing=missing, found=sorted(names), place=shape.file.name)


def _joined(
    name: TableName, column: str, existing: T.DataType | None, incoming: T.DataType, shape: FileShape
) -> T.DataType:
    if existing is None:
        return incoming
    wider = widened(existing, incoming)
    if wider is None:
        raise IncompatibleTypeError(
            table=name, column=column, existing=existing.simpleString(), incoming=incoming.simpleString(),
            place=shape.file.name,
        )  # fmt: skip
    return wider


def _refuse_names(name: TableName, types: Iterable[str]) -> None:
    reserved = [c for c in types if is_reserved_column(c)]
    if reserved:
        raise ReservedColumnError(table=name, columns=reserved)
    seen: dict[str, str] = {}
    for column in types:
        other = seen.setdefault(column.lower(), column)
        if other != column:
            raise UnsupportedError(
                what=f"{name}: the columns '{other}' and '{column}' differ only in case.",
                remedy="Give one of them another name by `rename` in tables.yml.",
            )
