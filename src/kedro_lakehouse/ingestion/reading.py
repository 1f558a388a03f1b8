"""Read a table's landed files as raw records, and resolve the columns that the table needs for them."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as T

from kedro_lakehouse.changes.events import EVENT_COLUMNS, LOOKUP, OPENED_COLUMNS, UNSET
from kedro_lakehouse.commits.fold_frames import takes
from kedro_lakehouse.commits.reading import reading_errors
from kedro_lakehouse.config.enrich import enriched_columns
from kedro_lakehouse.decoders.base import load_decoder
from kedro_lakehouse.decoders.lines import LineShape, ReadsFewLines, RowLines, split_keyed, texts
from kedro_lakehouse.decoders.metadata import with_metadata
from kedro_lakehouse.decoders.plain_json import NotPlainError
from kedro_lakehouse.errors import UnreadableFileError, UnsupportedError
from kedro_lakehouse.ingestion.columns import described_types, resolve_columns
from kedro_lakehouse.ingestion.references import References
from kedro_lakehouse.schema_registries.columns import column_types
from kedro_lakehouse.sources.base import NamesSchemas, ReadsFew, StreamSource, TellsMetadata
from kedro_lakehouse.sources.files import LandedFile, line_shapes, refuse_forbidden, shapes
from kedro_lakehouse.sources.line_runs import read_runs
from kedro_lakehouse.sources.read import read_groups, read_lines

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from pyspark.sql import DataFrame

    from kedro_lakehouse.config.documents import DocumentRules
    from kedro_lakehouse.decoders.lines import LineReader
    from kedro_lakehouse.decoders.records import Columns, RecordGroup
    from kedro_lakehouse.formats.base import TableState
    from kedro_lakehouse.ingestion.documents import DocumentReader
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.sources.base import FileSource
    from kedro_lakehouse.sources.files import FileShape, Load


FILES_IN_RUNS: Final = 3
BYTES_IN_RUNS: Final = 16 * 2**20
"""From how many bytes on lines of extracts that follow each other are read in runs."""


class FileReader:
    """Reads files with Spark: parquet and text as tables, JSON as lines that a decoder unwraps."""

    def __init__(self, table: LakeTable, source: FileSource) -> None:
        """Take the table and its source; nothing is read yet."""
        self.table, self.source = table, source
        declared = table.declared_source
        rules = None if declared is None else declared.documents_of(table.config)
        self._documents = None if rules is None else self._reader_of_documents(rules)

    def _reader_of_documents(self, rules: DocumentRules) -> DocumentReader:
        # Few projects have documents: the runs of the others do not import what reads them.
        from kedro_lakehouse.ingestion.documents import DocumentReader

        return DocumentReader(self.table, self.source, rules)

    @property
    def file_format(self) -> Any:
        """What the source's files hold: ``parquet``, ``csv``, ``json``, or ``bson`` for documents."""
        config: Any = self.table.source_config
        return config.file_format if self._documents is None else "bson"

    def look(self, files: Sequence[LandedFile]) -> list[FileShape]:
        """Find the columns of files: of JSON lines by one Spark job, of others from headers or footers.

        Few plain records of a stream are read without Spark.

        Raises:
            UnreadableFileError: A file cannot be read, or is to hold rows as JSON lines and has no such line.
            PermissionError: A file may not be read.
        """
        refuse_forbidden(files)
        if self._documents is not None:
            return self._documents.look(files)
        if self.file_format == "json":
            landed = [(f, self.source.load_of(f)) for f in files]
            filled = [f for f in files if f.size]
            found = self._looked_at(filled) if filled else []
            if isinstance(self.source, StreamSource):
                return self._with_metadata(line_shapes(landed, self._together(found)))
            looked = line_shapes(landed, found)
            if isinstance(self._line_reader, RowLines):
                self._require_objects(looked)
            return looked
        return shapes(
            [(f, self.source.load_of(f)) for f in files],
            file_format=self.file_format,
            options=dict(self.source.options),
            table=self.table.name,
            headers=dict(self.source.headers),
            fallback=dict(self.source.unnamed_columns),
        )

    def _together(self, found: Sequence[LineShape]) -> list[LineShape]:
        """Give the records of each partition the columns of all, and of the table.

        A file that lacks a column is a wrong file. A record that lacks one is poison, also if its partition
        has no other new one: it goes to quarantine, and the stream goes on. Debezium's messages tell
        their columns by themselves.
        """
        held = self._held_names(self.table.state("changes"))
        names: dict[object, set[str]] = {}
        for shape in found:
            names.setdefault(shape.kind, set(held)).update(name for name, _ in shape.columns)
        kinds = self._types_of_rows()
        return [
            replace(shape, columns=_typed(sorted(names[shape.kind]), kinds), described=bool(kinds))
            if shape.has_rows and (shape.kind is None or isinstance(shape.kind, str))
            else shape
            for shape in found
        ]

    @property
    def metadata(self) -> Mapping[str, T.DataType]:
        """The columns with facts that a stream tells of its records, and their types."""
        return self.source.metadata_kinds() if isinstance(self.source, TellsMetadata) else {}

    def _with_metadata(self, looked: Sequence[FileShape]) -> list[FileShape]:
        """Add the columns with facts of the stream to records that have columns of their own.

        Raises:
            UnsupportedError: A record has a column of the same name: one of the two would be lost.
        """
        kinds = self.metadata
        taken = {name.lower() for name in kinds}
        for shape in looked:
            for name, _ in shape.columns:
                if name.lower() in taken:
                    raise UnsupportedError(
                        what=f"{self.table.name}: records of {shape.file.name} have the column '{name}', "
                        "and `metadata` in sources.yml names a column so too.",
                        remedy="Give that one another name in `metadata`.",
                    )
        facts = tuple(kinds.items())
        return [
            replace(shape, columns=shape.columns + facts) if shape.has_rows and shape.columns else shape
            for shape in looked
        ]

    def _types_of_rows(self) -> dict[str, T.DataType]:
        """The types of rows in Avro, by the schemas of those that were just looked at."""
        if not isinstance(self.source, NamesSchemas) or not isinstance(self._line_reader, RowLines):
            return {}
        state, versions = self.table.state("changes"), map(column_types, self.source.row_schemas())
        return described_types(self.table.name, self.table.config, versions, state.columns if state else {})

    def keep_schemas(self, batch: int) -> None:
        """Keep the schemas that records of a planned batch were the first to name."""
        if isinstance(self.source, NamesSchemas):
            self.source.keep_schemas(batch)

    def _require_objects(self, looked: Sequence[FileShape]) -> None:
        for shape in looked:
            if shape.lines is not None and not shape.columns:
                raise UnreadableFileError(
                    table=self.table.name,
                    file=shape.file.name,
                    detail="none of its lines is a JSON object, and json means an object a line",
                    remedy="Deliver it so, or correct file_format in sources.yml",
                )

    def _looked_at(self, files: Sequence[LandedFile]) -> Sequence[LineShape]:
        """The shapes of lines: of a few without Spark, of many with as little work as will do."""
        return self._of_few(files) or self._of_known_names(files) or self._discovered(files)

    def _of_few(self, files: Sequence[LandedFile]) -> list[LineShape] | None:
        """The shapes of few plain lines, found without Spark; None if Spark must look."""
        lines, reader = self.few_lines(files), self._line_reader
        if lines is None or not isinstance(reader, ReadsFewLines):
            return None
        with contextlib.suppress(NotPlainError):
            return reader.discover_few(lines, self._layout)
        return None

    def _of_known_names(self, files: Sequence[LandedFile]) -> list[LineShape] | None:
        """The shapes of a stream's rows, if the table has all their names; None if there may be a new one.

        Where all names are known, it does not matter which line has them.
        """
        reader, state = self._line_reader, self.table.state("changes")
        if state is None or not isinstance(self.source, StreamSource) or not isinstance(reader, RowLines):
            return None
        lines = self._lines(files)
        with reading_errors(self.table.name, lines):
            names = reader.names(lines)
        seen = {name for found in names.values() for name in found}
        known = self._held_names(state) | self.source.control(sorted(seen))
        config = self.table.config
        if any(takes(config, config.rename.get(name, name)) for name in seen - known):
            return None
        return [LineShape(place=place, columns=texts(sorted(found))) for place, found in names.items()]

    def _held_names(self, state: TableState | None) -> set[str]:
        """The names in the source of the columns that the table has from it."""
        sources = {name: source for source, name in self.table.config.rename.items()}
        looked_up = enriched_columns(self.table.config.enrich)
        own = (*EVENT_COLUMNS, UNSET, LOOKUP, *OPENED_COLUMNS, *looked_up)
        held = {sources.get(c, c) for c in state.columns if c not in own} if state else set()
        return held - self.metadata.keys()

    def few_lines(self, files: Sequence[LandedFile]) -> pa.Table | None:
        """The records of ranges as lines, if few can be read without Spark; None if Spark must read them."""
        if isinstance(self.source, ReadsFew) and isinstance(self._line_reader, ReadsFewLines):
            return self.source.few_lines(files)
        return None

    def _discovered(self, files: Sequence[LandedFile]) -> Sequence[LineShape]:
        lines = self._lines(files)
        with reading_errors(self.table.name, lines):
            return self._line_reader.discover(lines, self._layout)

    def says_nothing(self, looked: Sequence[FileShape]) -> bool:
        """Whether no file has rows; or none that can be read, while the table's columns are unknown."""
        unknown = self.table.state("changes") is None
        return all(s.has_rows is False or (unknown and s.lines is not None and not s.columns) for s in looked)

    def columns(self, looked: Sequence[FileShape]) -> Columns:
        """Resolve the table's columns; a file of JSON lines of which none can be read is ignored."""
        state = self.table.state("changes")
        telling = [s for s in looked if s.lines is None or s.columns or not s.has_rows]
        seen = dict.fromkeys(column for shape in telling for column, _ in shape.columns)
        self.table.environment.source_columns[self.table.name] = tuple(seen)
        existing = state.columns if state else {}
        found = resolve_columns(self.table.name, self.table.config, self.source, telling, existing)
        return replace(found, types={**found.types, **References(self.table).kinds(existing)})

    def release(self) -> None:
        """Let the source forget the records that it has kept, if it keeps any."""
        if (release := getattr(self.source, "release", None)) is not None:
            release()

    def read(self, looked: Sequence[FileShape], *, numbered: bool = True) -> list[RecordGroup]:
        """Read files as raw records, in lazy frames; the lines of CSV may be left without numbers."""
        if self._documents is not None:
            return self._documents.read(looked)
        if self.file_format == "json":
            shapes = [s.lines for s in looked if s.lines is not None and s.has_rows]
            filled = list(dict.fromkeys(s.file for s in looked if s.lines is not None and s.has_rows))
            load: Load = looked[0].load if looked else "changes"
            lines = self._lines(filled)
            groups = self._line_reader.unwrap(lines, shapes, self._layout, load=load) if shapes else ()
            return [with_metadata(group, self.metadata) for group in groups]
        return read_groups(
            self.table.session,
            looked,
            file_format=self.file_format,
            options=self.source.options,
            headers=self.source.headers,
            numbered=numbered,
        )

    def read_runs(self, looked: Sequence[FileShape]) -> RecordGroup | None:
        """Read CSV files that follow each other, each line that they share once; None if that is no gain.

        A few files, or small ones, are read in less time than their lines are compared.
        """
        if self.file_format != "csv" or len(looked) < FILES_IN_RUNS:
            return None
        if sum(shape.file.size for shape in looked) < BYTES_IN_RUNS:
            return None
        load = looked[0].load
        options, header = self.source.options[load], self.source.headers[load]
        return read_runs(self.table.session, looked, options, header=header)

    # Only sources of changes have a decoder and a layout: JSON extracts are plain rows.
    @property
    def _layout(self) -> Any:
        return getattr(self.source, "layout", lambda: None)()

    @property
    def _line_reader(self) -> LineReader:
        """What turns JSON lines into raw records: the decoder, or the reader of plain rows."""
        named: str | None = getattr(self.source, "decoder", None)
        decoder: Any = load_decoder(named) if named else None
        return decoder if hasattr(decoder, "unwrap") else RowLines()

    def _lines(self, files: Sequence[LandedFile]) -> DataFrame:
        if isinstance(self.source, StreamSource):
            return self.source.lines(self.table.session, files)
        arrays = getattr(self.table.source_config, "json_layout", "lines") == "array"
        lines = read_lines(self.table.session, files, arrays=arrays)
        return split_keyed(lines) if getattr(self.source, "keyed", False) else lines


def _typed(names: Sequence[str], kinds: Mapping[str, T.DataType]) -> tuple[tuple[str, T.DataType], ...]:
    """Columns of the types that are known; one that no schema names has the type that the table gives it."""
    other = T.NullType() if kinds else T.StringType()
    return tuple((name, kinds.get(name, other)) for name in names)
