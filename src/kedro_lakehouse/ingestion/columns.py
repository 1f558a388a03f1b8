"""Resolve the columns of a table: declared, already in the table, or described by landed files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import types as T

from kedro_lakehouse.changes.conversion import castable, same_type
from kedro_lakehouse.changes.events import EVENT_COLUMNS, LOOKUP, OPENED_COLUMNS, ORDER, UNSET
from kedro_lakehouse.commits.fold_frames import takes
from kedro_lakehouse.config.enrich import columns_for_lookups, enriched_columns
from kedro_lakehouse.decoders.records import Columns
from kedro_lakehouse.errors import (
    DECLARED_THERE,
    MissingColumnError,
    ReservedColumnError,
    SchemaFixedError,
    UnsupportedError,
)
from kedro_lakehouse.formats.ddl import Clash, case_clash, clash, schema_changes, storable, widened
from kedro_lakehouse.names import is_reserved_column

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.errors import IncompatibleTypeError
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
    """Resolve the table's columns for a batch, before any of it is written.

    Raises:
        MissingColumnError: A file with rows lacks a key column.
        IncompatibleTypeError: A file's type would lose values in the table's type, and no type fits both.
        SchemaFixedError: The table's ``schema_policy`` is fixed, and the batch would add or widen columns.
        ReservedColumnError: A column has a name that is reserved for the framework, and is not renamed.
        UnsupportedError: Two columns, or two fields of one struct, differ only in case.
    """
    seen = [n for shape in shapes for n, _ in shape.columns]
    needed = {*table.order_by, *filter(None, [table.effective_time])}
    looked_up_by = columns_for_lookups(table.enrich)
    named = needed.union(looked_up_by)
    stated = source.control(seen)
    # Columns of the source that describe the change, such as its operation, are no columns of the table;
    # those that give the order or the time are read all the same.
    control = frozenset(c for c in stated if table.rename.get(c, c) not in named)
    held = {c: t for c, t in existing.items() if c not in (*EVENT_COLUMNS, UNSET, LOOKUP, *OPENED_COLUMNS)}
    declared = declared_types(name, table, held)
    types = dict(held)
    for shape in shapes:
        kept = {
            n: t
            for n, t in shape.columns
            if table.rename.get(n, n) in named or (n not in control and _kept(n, table))
        }
        _require_keys(name, table, kept, shape)
        _refuse_pairs(name, table, kept, shape)
        _refuse_enriched(name, table, kept, shape)
        for source_name, kind in kept.items():
            column = table.rename.get(source_name, source_name)
            if column in declared:
                types[column] = _readable(name, column, declared[column], kind, shape)
            elif shape.lines is not None and shape.lines.described:
                types[column] = _described(name, column, types.get(column), kind, shape.file.name)
            elif not shape.self_describing:
                types.setdefault(column, storable(kind))
            elif shape.has_rows:
                types[column] = _joined(name, column, types.get(column), kind, shape.file.name)
        if table.schema_policy == "fixed" and held:
            _refuse_changes(name, held, {c: t for c, t in types.items() if c not in declared}, shape)
    for key in (*table.keys, *looked_up_by):
        types.setdefault(key, declared.get(key, T.StringType()))
    _refuse_names(name, types)
    if missing := sorted(needed - types.keys()):
        raise MissingColumnError(
            table=name, missing=missing, found=sorted(types), place="order_by, effective_time"
        )
    stored = {table.rename.get(n, n) for n in seen if n not in stated and _kept(n, table)}
    csv, order = source.options["changes"], existing.get(ORDER)
    return Columns(
        types=types,
        rename=table.rename,
        control=control,
        date_format=csv.date_format,
        timestamp_format=csv.timestamp_format,
        base64=any(shape.lines is not None and shape.lines.described for shape in shapes),
        unset_marker=table.unset_marker,
        carried=frozenset(named - stored - existing.keys()),
        order=order if isinstance(order, T.StructType) else None,
    )


def declared_types(
    name: TableName, table: TableConfig, existing: Mapping[str, T.DataType]
) -> dict[str, T.DataType]:
    """The types that the declaration gives to columns, each with what the existing column has beside it.

    Raises:
        IncompatibleTypeError: The existing column has values that its declared type cannot hold.
    """
    declared = {c: storable(_parse(text)) for c, text in table.types.items()}
    return {c: _declared(name, c, existing.get(c), kind) for c, kind in declared.items()}


def _declared(name: TableName, column: str, existing: T.DataType | None, kind: T.DataType) -> T.DataType:
    """The declared type, together with struct fields that only the existing column has."""
    if existing is None:
        return kind
    wider = widened(existing, kind)
    nested = isinstance(kind, T.StructType | T.ArrayType | T.MapType)
    if wider is None or not (nested or same_type(wider, kind)):
        raise _incompatible(name, column, existing, kind, DECLARED_THERE)
    return wider


def _readable(
    name: TableName, column: str, declared: T.DataType, kind: T.DataType, shape: FileShape
) -> T.DataType:
    if shape.self_describing and shape.has_rows and not castable(kind, declared):
        raise _incompatible(name, column, declared, kind, shape.file.name)
    return declared


def _incompatible(
    name: TableName, column: str, existing: T.DataType, incoming: T.DataType, place: str
) -> IncompatibleTypeError:
    found = clash(column, existing, incoming) or Clash(path=(column,), existing=existing, incoming=incoming)
    return found.error(name, place=place)


def _refuse_changes(
    name: TableName, held: Mapping[str, T.DataType], wanted: Mapping[str, T.DataType], shape: FileShape
) -> None:
    if changes := schema_changes(held, wanted):
        raise SchemaFixedError(
            table=name, columns=[".".join(change.path) for change in changes], place=shape.file.name
        )


def _parse(text: str) -> T.DataType:
    return T._parse_datatype_string(text) if text.startswith(("array", "map", "struct")) else _simple(text)  # noqa: SLF001


def _simple(text: str) -> T.DataType:
    word, _, rest = text.lower().partition("(")
    if word in ("decimal", "dec", "numeric"):
        precision, _, scale = rest.rstrip(")").partition(",")
        return T.DecimalType(int(precision or 10), int(scale or 0))
    return {
        "string": T.StringType(),
        "boolean": T.BooleanType(),
        "byte": T.IntegerType(),
        "tinyint": T.IntegerType(),
        "short": T.IntegerType(),
        "smallint": T.IntegerType(),
        "int": T.IntegerType(),
        "integer": T.IntegerType(),
        "long": T.LongType(),
        "bigint": T.LongType(),
        "float": T.FloatType(),
        "real": T.FloatType(),
        "double": T.DoubleType(),
        "date": T.DateType(),
        "timestamp": T.TimestampType(),
        "timestamp_ltz": T.TimestampType(),
        "timestamp_ntz": T.TimestampNTZType(),
        "binary": T.BinaryType(),
    }[word.strip()]


def _kept(source_name: str, table: TableConfig) -> bool:
    return takes(table, table.rename.get(source_name, source_name))


def _require_keys(name: TableName, table: TableConfig, kept: Iterable[str], shape: FileShape) -> None:
    names = {table.rename.get(n, n) for n in kept}
    missing = [k for k in table.keys if k not in names]
    # A file of truncate messages alone shows no columns of a row, so no key is missing from it.
    telling = bool(names) or shape.self_describing or shape.lines is None
    if missing and shape.has_rows is not False and telling:
        raise MissingColumnError(table=name, missing=missing, found=sorted(names), place=shape.file.name)


def _refuse_pairs(name: TableName, table: TableConfig, kept: Iterable[str], shape: FileShape) -> None:
    """Refuse a file that has a column by its old and by its new name: one value of each row would be lost."""
    seen: dict[str, str] = {}
    for source_name in kept:
        other = seen.setdefault(table.rename.get(source_name, source_name), source_name)
        if other != source_name:
            raise UnsupportedError(
                what=f"{name}: {shape.file.name} has '{other}' and '{source_name}', one column by `rename`.",
                remedy="Correct `rename` in tables.yml, or deliver the file with one of them.",
            )


def _refuse_enriched(name: TableName, table: TableConfig, kept: Iterable[str], shape: FileShape) -> None:
    """Refuse a source column with the name of one that comes from a reference."""
    taken = {column.lower() for column in enriched_columns(table.enrich)}
    for source_name in kept:
        if (column := table.rename.get(source_name, source_name)).lower() in taken:
            raise UnsupportedError(
                what=f"{name}: {shape.file.name} has '{source_name}', and `enrich` gives '{column}' too.",
                remedy="Rename one, by `rename` or `enrich.columns: {column: name}`; or exclude the first.",
            )


def _joined(
    name: TableName, column: str, existing: T.DataType | None, incoming: T.DataType, place: str
) -> T.DataType:
    if existing is None:
        return storable(incoming)
    wider = widened(existing, incoming)
    if wider is None:
        raise _incompatible(name, column, existing, incoming, place)
    return wider


def _described(
    name: TableName, column: str, existing: T.DataType | None, incoming: T.DataType, place: str
) -> T.DataType:
    """The type for texts whose type is known: a column of text holds them all, as they are."""
    if isinstance(existing, T.StringType):
        return existing
    return _joined(name, column, existing, incoming, place)


def described_types(
    name: TableName,
    table: TableConfig,
    versions: Iterable[Mapping[str, T.DataType]],
    existing: Mapping[str, T.DataType],
) -> dict[str, T.DataType]:
    """The types of source columns for rows of several versions of a schema, by the order of versions.

    Columns whose type is declared, and those that the table does not keep, are left out.

    Raises:
        IncompatibleTypeError: No type fits two versions, or the table and a version.
    """
    types = dict[str, T.DataType]()
    for version in versions:
        for source_name, kind in version.items():
            column = table.rename.get(source_name, source_name)
            if column not in table.types and _kept(source_name, table):
                held = types.get(source_name, existing.get(column))
                types[source_name] = _described(name, column, held, kind, "a batch")
    return types


def _refuse_names(name: TableName, types: Mapping[str, T.DataType]) -> None:
    reserved = [c for c in types if is_reserved_column(c)]
    if reserved:
        raise ReservedColumnError(table=name, columns=reserved)
    if found := case_clash(types, types):
        raise UnsupportedError(
            what=f"{name}: the columns '{found[0]}' and '{found[1]}' differ only in case.",
            remedy="Give one of them another name by `rename` in tables.yml, or in the source.",
        )
