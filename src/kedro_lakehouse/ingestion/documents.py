"""Documents that landed as raw BSON: which columns they give a table, and their rows."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import types as T

from kedro_lakehouse.changes.conversion import castable
from kedro_lakehouse.changes.events import EVENT_COLUMNS, LOOKUP, OPENED_COLUMNS, UNSET
from kedro_lakehouse.commits.reading import reading_errors
from kedro_lakehouse.decoders.bson.decoder import DOCUMENT, ID, BsonDecoder
from kedro_lakehouse.decoders.bson.kinds import Kinds, kinds_of
from kedro_lakehouse.decoders.bson.types import Field, fields_of, fits, is_mixed, type_of
from kedro_lakehouse.decoders.records import RecordGroup
from kedro_lakehouse.errors import UnreadableFileError, UnsupportedError
from kedro_lakehouse.formats.ddl import storable, widened
from kedro_lakehouse.ingestion.columns import declared_types
from kedro_lakehouse.sources.files import FileShape, parquet_rows, shapes
from kedro_lakehouse.sources.read import read_groups

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.config.documents import DocumentRules, Path
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.sources.base import FileSource
    from kedro_lakehouse.sources.files import LandedFile

_NONE: Final = T.NullType()
_FEW_BYTES: Final = 8 * 2**20
"""Documents of landed files up to so many bytes are looked at in this process."""


class DocumentReader:
    """Reads the landed documents of one table; what it has looked at, it can read."""

    def __init__(self, table: LakeTable, source: FileSource, rules: DocumentRules) -> None:
        """Take the table, its source, and how documents become rows; nothing is read yet."""
        self._table, self._source, self._rules = table, source, rules
        self._decoder = BsonDecoder()
        self._fields: dict[str, Field] = {}

    def look(self, files: Sequence[LandedFile]) -> list[FileShape]:
        """Find the columns of documents: all files of a batch together have one shape.

        Raises:
            UnreadableFileError: A file is no parquet of documents.
            UnsupportedError: Two fields would give one column.
        """
        raw = self._stored(files)
        filled = [shape for shape in raw if shape.has_rows]
        kinds = self._kinds(filled) if filled else Kinds()
        held, found = self._held(), self._found(kinds)
        fields = [self._field(name, path, below, held) for name, path, below in found]
        self._fields |= {field.name: field for field in fields}
        known = [(f.name, f.type) for f in fields if not isinstance(f.type, T.NullType)]
        beside = {n: t for shape in raw for n, t in shape.columns if n not in (ID, DOCUMENT)}
        columns = tuple((known if filled else []) + list(beside.items()))
        return [
            FileShape(shape.file, shape.load, columns, shape.has_rows, self_describing=True) for shape in raw
        ]

    def read(self, looked: Sequence[FileShape]) -> list[RecordGroup]:
        """Read files of one batch as raw records, in one lazy frame."""
        filled = [shape for shape in looked if shape.has_rows is not False]
        if not filled:
            return []
        columns = dict(filled[0].columns)
        fields = [
            replace(self._fields[name], type=kind) for name, kind in columns.items() if name in self._fields
        ]
        beside = [name for name in columns if name not in self._fields]
        (stored,) = self._groups(self._stored([shape.file for shape in filled]))
        rows = self._decoder.unwrap(stored.records, fields, beside)
        return [RecordGroup(records=rows, load=stored.load, columns=columns, files=stored.files)]

    def _stored(self, files: Sequence[LandedFile]) -> list[FileShape]:
        """The shapes of files as they are stored: `_id` and the document."""
        found = shapes(
            [(f, self._source.load_of(f)) for f in files], file_format="parquet",
            options={}, table=self._table.name, headers={}, fallback={},
        )  # fmt: skip
        wanted = {ID: T.StringType(), DOCUMENT: T.BinaryType()}
        for shape in found:
            if any(not isinstance(dict(shape.columns).get(n), type(k)) for n, k in wanted.items()):
                raise UnreadableFileError(
                    table=self._table.name, file=shape.file.name,
                    detail="it does not hold documents in columns `_id` and `document`",
                    remedy="Let only pulls of this source write into its folder",
                )  # fmt: skip
        return found

    def _groups(self, stored: Sequence[FileShape]) -> list[RecordGroup]:
        return read_groups(self._table.session, stored, file_format="parquet", options={}, headers={})

    def _kinds(self, filled: Sequence[FileShape]) -> Kinds:
        """The kinds of all values; in small files they are found without Spark."""
        maps = self._rules.maps
        if sum(shape.file.size for shape in filled) <= _FEW_BYTES:
            found = Kinds()
            for shape in filled:
                found.merge(kinds_of(self._here(shape.file), maps))
            return found
        (stored,) = self._groups(filled)
        with reading_errors(self._table.name, stored.records):
            return self._decoder.discover(stored.records, maps)

    def _here(self, file: LandedFile) -> list[bytes | None]:
        """The documents of a file, read by this process."""
        try:
            rows = parquet_rows(file, pa.schema([(DOCUMENT, pa.binary())]))
        except (pa.ArrowException, OSError) as error:
            raise UnreadableFileError(
                table=self._table.name, file=file.name, detail="not a complete parquet file"
            ) from error
        return rows[DOCUMENT].to_pylist() if rows is not None else []

    def _held(self) -> dict[str, T.DataType]:
        """The columns that the table has from its source, by the table's names."""
        state = self._table.state("changes")
        own = (*EVENT_COLUMNS, UNSET, LOOKUP, *OPENED_COLUMNS)
        return {c: t for c, t in state.columns.items() if c not in own} if state else {}

    def _found(self, kinds: Kinds) -> list[tuple[str, Path, Kinds]]:
        try:
            return [(name, path, below) for name, (path, below) in fields_of(kinds, self._rules).items()]
        except ValueError as error:
            raise UnsupportedError(
                what=f"{self._table.name}: two fields of the documents would be the column '{error}'.",
                remedy="Use `document: nested` in sources.yml, or rename one of the fields.",
            ) from error

    def _field(self, name: str, path: Path, kinds: Kinds, held: Mapping[str, T.DataType]) -> Field:
        """A field as it is read: in its declared type, else as the table has it, else by its values."""
        column, found = self._table.config.rename.get(name, name), type_of(kinds, self._rules, path)
        declared = declared_types(self._table.name, self._table.config, held).get(column)
        if declared is not None:
            kind = read_as(declared, kinds, found)
        elif column in held:
            kind = joined(held[column], found)
        else:
            kind = found if isinstance(found, T.NullType) else storable(found)
        # Text of what most values are not is for Spark, which casts it to the declared type.
        is_cast = declared is not None and isinstance(kind, T.StringType) and not fits(kinds, kind)
        return Field(name=name, path=path, type=kind, any_text=self._rules.as_text or is_cast)


def joined(held: T.DataType, found: T.DataType) -> T.DataType:
    """The type of a column that the table has, for new values: wider where it may be, with new fields.

    A part that cannot become wide enough stays as it is: values that it does not hold are set aside.

    Example:
        >>> joined(T.IntegerType(), T.StringType()), joined(T.IntegerType(), T.LongType())
        (IntegerType(), LongType())
    """
    if isinstance(held, T.StructType) and isinstance(found, T.StructType):
        there = {f.name: f.dataType for f in found.fields}
        kept = [
            T.StructField(f.name, joined(f.dataType, there.pop(f.name, T.NullType()))) for f in held.fields
        ]
        return T.StructType([*kept, *[T.StructField(name, storable(kind)) for name, kind in there.items()]])
    if isinstance(held, T.ArrayType) and isinstance(found, T.ArrayType):
        return T.ArrayType(joined(held.elementType, found.elementType))
    if isinstance(held, T.MapType) and isinstance(found, T.MapType):
        return T.MapType(held.keyType, joined(held.valueType, found.valueType))
    return widened(held, found) or held


def read_as(declared: T.DataType, kinds: Kinds | None, found: T.DataType) -> T.DataType:
    """The type to read a declared column as: the declared one where values fit exactly or are set aside.

    Else it is one that Spark casts to the declared type: that of the values, or text.
    """
    if kinds is None or isinstance(found, T.NullType):
        return declared
    if isinstance(declared, T.StructType) and isinstance(found, T.StructType):
        there = {f.name: f.dataType for f in found.fields}
        return T.StructType(
            [
                T.StructField(f.name, read_as(f.dataType, kinds.fields.get(f.name), there.get(f.name, _NONE)))
                for f in declared.fields
            ]
        )
    if isinstance(declared, T.ArrayType) and isinstance(found, T.ArrayType):
        return T.ArrayType(read_as(declared.elementType, kinds.items, found.elementType))
    if isinstance(declared, T.MapType) and isinstance(found, T.StructType | T.MapType):
        return declared
    if fits(kinds, declared):
        return declared
    return found if castable(found, declared) and not is_mixed(kinds) else T.StringType()
