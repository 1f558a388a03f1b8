"""What files of csv, JSON and parquet hold: the columns of each, and some of their rows."""

from __future__ import annotations

import codecs
import csv
import io
import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from kedro_lakehouse.discovery.dialects import NUMBER, Dialect, UnreadFileError, dialect_of, header_of
from kedro_lakehouse.discovery.written_times import with_written_times

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from kedro_lakehouse.discovery.tree import Tree, TreeFile

_HEAD: Final = 256 * 1024
_READ_WHOLE: Final = 256 * 1024**2
"""Text files of at most so many bytes together are counted; of larger ones rows are estimated."""
_LONGEST_LINE: Final = 16 * 1024**2
_LARGEST_ARRAY: Final = 128 * 1024**2
LAYOUT: Final = "json_layout"
"""Option of files of JSON that are one array each."""
_UNEVEN: Final = "uneven"
_NESTED: Final = frozenset({"object", "list"})
_KINDS: Final[Mapping[type, str]] = {str: "text", bool: "truth", dict: "object", list: "list"}
NULL: Final = "null_value"
"""Option of files of csv in which a word stands for null."""
REMARKS: Final = "remarks"
"""Option of files of csv: what a person should know of columns that stay text."""
_NULLS: Final = ("NA", "NaN", "nan", "N/A", "NULL", "null", "None", "\\N", "?", ".", "-")
_LATIN: Final = "ISO-8859-1"
"""Spark reads no other encoding in which a byte is a letter."""
_THREADS: Final = 8
_INTEGER: Final = r"^-?(?:0|[1-9]\d{0,17})$"
_DATE: Final = r"^\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])$"
_TIMESTAMP: Final = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:?\d\d)?$"
_ZONE: Final = r"(?:Z|[+-]\d\d:?\d\d)$"
_DECIMAL_COMMA: Final = r"^-?(?:\d{1,3}(?:\.\d{3})+|\d+)(?:,\d+)?$"
_BOOLEAN: Final = r"^(?:true|false|True|False|TRUE|FALSE)$"
_TEXT_TYPES: Final = (
    (_BOOLEAN, pa.bool_()),
    (_INTEGER, pa.int64()),
    (NUMBER, pa.float64()),
    (_DATE, pa.date32()),
)


@dataclass(frozen=True)
class Look:
    """What a file was seen to hold; ``rows`` is None where only reading all of it would tell."""

    file: TreeFile
    schema: pa.Schema
    rows: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def names(self) -> frozenset[str]:
        """The names of its columns, in lower case."""
        return frozenset(name.lower() for name in self.schema.names)


@dataclass(frozen=True)
class Sample:
    """Some rows of a dataset, in types that all of them fit, and how many rows there are in all."""

    rows: pa.Table
    total: int | None
    exact: bool
    options: Mapping[str, Any] = field(default_factory=dict)


def look_at_files(tree: Tree, files: Sequence[TreeFile]) -> list[Look | tuple[TreeFile, str]]:
    """Look at the beginning or the footer of each file; for one that cannot be read, why not."""
    dialects: dict[str, Dialect] = {}
    looks: dict[str, Callable[[Tree, TreeFile], Look]] = {
        "parquet": _parquet_look,
        "csv": partial(_csv_look, dialects=dialects),
        "json": _json_look,
    }

    def look(file: TreeFile) -> Look | tuple[TreeFile, str]:
        try:
            return looks[str(file.kind)](tree, file)
        except UnreadFileError as error:
            return file, str(error)
        except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error, EOFError) as error:
            return file, f"it is no readable {file.kind} ({type(error).__name__})"

    with ThreadPoolExecutor(max_workers=_THREADS) as pool:
        return list(pool.map(look, files))


def sample_of(tree: Tree, looks: Sequence[Look], schema: pa.Schema, limit: int) -> Sample:
    """Read up to so many rows, from one file after the other.

    Args:
        tree: The place of the files.
        looks: The files of one dataset.
        schema: Their columns together.
        limit: How many rows are wanted.
    """
    kind = looks[0].file.kind
    if kind == "parquet":
        return _parquet_sample(tree, looks, schema, limit)
    return _text_sample(tree, looks, limit, _csv_batches if kind == "csv" else _json_batches)


def _opened(tree: Tree, file: TreeFile) -> Any:
    import fsspec

    handle = tree.fs.open(tree.at(file.path), "rb")
    codec = fsspec.utils.infer_compression(file.name)
    return fsspec.compression.compr[codec](handle, mode="rb") if codec else handle


def _parquet_look(tree: Tree, file: TreeFile) -> Look:
    import pyarrow.parquet as pq

    with tree.fs.open(tree.at(file.path), "rb") as handle:
        footer = pq.ParquetFile(handle)
        return Look(file, footer.schema_arrow.remove_metadata(), footer.metadata.num_rows)


def _parquet_sample(tree: Tree, looks: Sequence[Look], schema: pa.Schema, limit: int) -> Sample:
    import pyarrow.parquet as pq

    parts, wanted = list[pa.Table](), limit
    for look in looks:
        if wanted <= 0:
            break
        with tree.fs.open(tree.at(look.file.path), "rb") as handle:
            for batch in pq.ParquetFile(handle).iter_batches(batch_size=min(wanted, 65_536)):
                parts.append(_with_partition(pa.table(batch), look.file))
                wanted -= batch.num_rows
                if wanted <= 0:
                    break
    rows = _joined(parts, schema).slice(0, limit)
    return Sample(rows, sum(look.rows or 0 for look in looks), exact=True)


def _head(tree: Tree, file: TreeFile) -> bytes:
    """The whole lines among the first characters of a text file."""
    with _opened(tree, file) as handle:
        found: bytes = handle.read(_HEAD)
    cut = len(found) == _HEAD
    return found[: found.rfind(b"\n") + 1] if cut and b"\n" in found else found


def _decoded(tree: Tree, file: TreeFile) -> tuple[str, str]:
    """The first lines of a text file, and its encoding: UTF-8, or else one in which a byte is a letter."""
    head = _head(tree, file)
    if file.size <= _READ_WHOLE:  # an odd character may stand far below
        with _opened(tree, file) as handle:
            is_utf8 = _is_utf8(handle)
    else:
        is_utf8 = _is_utf8(io.BytesIO(head))
    if is_utf8:
        return head.decode("utf-8-sig"), "UTF-8"
    if b"\0" in head:
        raise UnreadFileError("it is no text in UTF-8 or ISO-8859-1")
    return head.decode("latin-1"), _LATIN


def _is_utf8(handle: Any) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        while chunk := handle.read(4 * 1024**2):
            decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _csv_look(tree: Tree, file: TreeFile, *, dialects: dict[str, Dialect]) -> Look:
    """The columns of a csv file; one that begins as another one did is written alike."""
    head, encoding = _decoded(tree, file)
    if not head.strip():
        raise UnreadFileError("it has no lines")
    start = head.partition("\n")[0]
    dialect = dialects.get(start) or dialect_of(head)
    dialects[start] = dialect
    names, options = header_of(head, dialect)
    if "" in names or len({name.lower() for name in names}) < len(names):
        raise UnreadFileError("its header has empty or repeated names")
    schema = pa.schema([(name, pa.string()) for name in names])
    return Look(file, schema, options={**options, "encoding": encoding})


def _csv_batches(tree: Tree, look: Look) -> Iterator[pa.Table]:
    """The rows of a csv file as texts; an empty value is null."""
    from pyarrow import csv as pacsv

    options, names = look.options, look.schema.names
    with _opened(tree, look.file) as handle:
        reader = pacsv.open_csv(
            handle,
            read_options=pacsv.ReadOptions(
                column_names=names,
                skip_rows=0 if not options["header"] else 1,
                block_size=4 * 1024**2,
                encoding="latin-1" if options["encoding"] == _LATIN else "utf8",
            ),
            parse_options=pacsv.ParseOptions(
                delimiter=options["delimiter"],
                quote_char=options["quote"] or False,
                newlines_in_values=True,
                invalid_row_handler=lambda _: "skip",
            ),
            convert_options=pacsv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()), null_values=[""], strings_can_be_null=True
            ),
        )
        for batch in reader:
            yield pa.table(batch)


def _json_look(tree: Tree, file: TreeFile) -> Look:
    head = _head(tree, file).decode("utf-8-sig").strip()
    if not head.startswith(("[", "{")):
        raise UnreadFileError("it is no JSON: an object on each line is expected, or one array of objects")
    options: dict[str, Any] = {LAYOUT: "array"} if head.startswith("[") else {}
    try:
        found = _schema_of_lines(_even_lines(tree, file, options) if options else head.encode())
    except pa.ArrowInvalid:  # values of several kinds in one field, or within one
        options[_UNEVEN] = True
        found = _schema_of_lines(_even_lines(tree, file, options))
    # Arrow takes texts for times and forgets their zone: they stay texts, of which all values tell the type.
    fields = [f.with_type(pa.string()) if pa.types.is_timestamp(f.type) else f for f in found]
    return Look(file, pa.schema(fields), options=options)


def _schema_of_lines(lines: bytes) -> pa.Schema:
    from pyarrow import json as pajson

    options = pajson.ParseOptions(newlines_in_values=False)
    return pajson.read_json(
        io.BytesIO(lines), parse_options=options, read_options=pajson.ReadOptions(block_size=len(lines) + 1)
    ).schema


def _even_lines(tree: Tree, file: TreeFile, options: Mapping[str, Any]) -> bytes:
    """The objects of a file, a line each; a field with values of several kinds has their texts.

    Where kinds differ within nested values as well, all nested values are texts.
    """
    array, uneven = LAYOUT in options, _UNEVEN in options
    if file.size > _LARGEST_ARRAY:
        raise UnreadFileError("it is too large for an array of JSON, or for fields of several kinds")
    with _opened(tree, file) as handle:
        text = handle.read().decode("utf-8-sig")
    try:
        items = json.loads(text) if array else [json.loads(one) for one in text.splitlines() if one.strip()]
    except ValueError as error:
        raise UnreadFileError("it is neither an object on each line nor one array of objects") from error
    if not items or not all(isinstance(item, dict) for item in items):
        raise UnreadFileError("its JSON does not hold objects")
    kinds: dict[str, set[str]] = {}
    for item in items:
        for name, value in item.items():
            if value is not None:
                kinds.setdefault(name, set()).add(_KINDS.get(type(value), "number"))
    texts = {name for name, found in kinds.items() if len(found) > 1 or (uneven and found & _NESTED)}
    for item in items:
        for name in texts & item.keys():
            if item[name] is not None and not isinstance(item[name], str):
                item[name] = json.dumps(item[name])
    return "\n".join(json.dumps(item) for item in items).encode()


def _json_batches(tree: Tree, look: Look) -> Iterator[pa.Table]:
    from pyarrow import json as pajson

    texts = pa.schema([f for f in look.schema if pa.types.is_string(f.type)])
    whole = LAYOUT in look.options or _UNEVEN in look.options
    opened = io.BytesIO(_even_lines(tree, look.file, look.options)) if whole else _opened(tree, look.file)
    with opened as handle:
        reader = pajson.open_json(
            handle,
            read_options=pajson.ReadOptions(block_size=_LONGEST_LINE),
            parse_options=pajson.ParseOptions(explicit_schema=texts),
        )
        first = {name: number for number, name in enumerate(look.schema.names)}
        for batch in reader:  # Arrow puts the named columns before the others
            names = sorted(batch.schema.names, key=lambda name: first.get(name, len(first)))
            yield pa.table(batch).select(names)


def _text_sample(tree: Tree, looks: Sequence[Look], limit: int, batches: Any) -> Sample:
    """Read files as long as rows are wanted or all of them are small enough to be counted."""
    whole = sum(look.file.size for look in looks) <= _READ_WHOLE
    parts, rows, bytes_read, multiline = list[pa.Table](), 0, 0, False
    for look in looks:
        for batch in batches(tree, look):
            if rows < limit:
                part = batch.slice(0, limit - rows)
                multiline = multiline or _has_line_ends(part)
                parts.append(_with_partition(part, look.file))
            rows += batch.num_rows
            if rows >= limit and not whole:
                break
        bytes_read += look.file.size
        if not whole and rows >= limit:
            break
    size = sum(look.file.size for look in looks)
    total = rows if whole else round(rows * size / max(bytes_read, 1))
    options: dict[str, Any] = {"multiline": True} if multiline else {}
    joined = _joined(parts, None) if parts else pa.table({})
    if looks[0].file.kind != "csv":
        return Sample(_typed(joined), total, exact=whole, options=options)
    if (word := _word_for_null(joined)) is not None:
        options[NULL] = word
        joined = _without(joined, word)
    found = with_written_times(_typed(joined))
    if remarks := [*found.remarks, *_decimal_commas(found.rows)]:
        options[REMARKS] = remarks
    return Sample(found.rows, total, exact=whole, options={**options, **found.options})


def _decimal_commas(rows: pa.Table) -> Iterator[str]:
    """Which columns hold numbers as half of Europe writes them."""
    for name in rows.column_names:
        given = rows[name].drop_null()
        if pa.types.is_string(given.type) and len(given):
            found = pc.match_substring_regex(given, _DECIMAL_COMMA)
            if pc.all(found).as_py() and pc.any(pc.match_substring(given, ",")).as_py():
                yield f"{name}: numbers with a decimal comma; they stay text"


def _word_for_null(rows: pa.Table) -> str | None:
    """The word that stands for null: without it texts are numbers, times or truth values."""
    found: dict[str, int] = {}
    for name in rows.column_names:
        if not pa.types.is_string(rows[name].type) or typed_texts(rows[name]).type != pa.string():
            continue
        odd = {word for word in rows[name].unique().to_pylist() if word in _NULLS}
        for word in odd:
            column = _null_if(rows[name], word)
            if column.null_count < len(column) and typed_texts(column).type != pa.string():
                found[word] = found.get(word, 0) + 1
    return max(_NULLS, key=lambda word: found.get(word, 0)) if found else None


def _without(rows: pa.Table, word: str) -> pa.Table:
    for number, name in enumerate(rows.column_names):
        if pa.types.is_string(rows[name].type):
            rows = rows.set_column(number, name, _null_if(rows[name], word))
    return rows


def _null_if(column: pa.ChunkedArray, word: str) -> pa.ChunkedArray:
    return pc.if_else(pc.equal(column, word), pa.scalar(None, pa.string()), column)


def _has_line_ends(rows: pa.Table) -> bool:
    texts = (rows[name] for name in rows.column_names if pa.types.is_string(rows[name].type))
    return any(pc.any(pc.match_substring(column, "\n")).as_py() for column in texts)


def _with_partition(rows: pa.Table, file: TreeFile) -> pa.Table:
    """Rows with the columns that their file's folders give them, as texts."""
    for name, value in file.partition:
        if name not in rows.column_names:
            text = None if value == "__HIVE_DEFAULT_PARTITION__" else value
            rows = rows.append_column(name, pa.array([text] * rows.num_rows, pa.string()))
    return rows


def _joined(parts: Sequence[pa.Table], schema: pa.Schema | None) -> pa.Table:
    if not parts:
        return (schema or pa.schema([])).empty_table()
    try:
        return pa.concat_tables(parts, promote_options="permissive")
    except (
        pa.ArrowInvalid,
        pa.ArrowTypeError,
    ):  # of columns whose types cannot meet, the newest file's counts
        return parts[-1]


def _typed(rows: pa.Table) -> pa.Table:
    """Texts in the types that all of them stand for."""
    for number, name in enumerate(rows.column_names):
        column = rows[name]
        if pa.types.is_string(column.type):
            rows = rows.set_column(number, name, typed_texts(column))
    return rows


def typed_texts(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """A column of texts in the type that each of them stands for; as it is where there is none.

    A number with zeros before it stays text, as a code does that looks like a number.

    Example:
        >>> typed_texts(pa.chunked_array([["1", None, "20"]])).type
        DataType(int64)
        >>> typed_texts(pa.chunked_array([["07", "12"]])).type
        DataType(string)
    """
    given = column.drop_null()
    kind = _kind_of(given) if len(given) else None
    if kind is None:
        return column
    try:
        return column.cast(kind)
    except pa.ArrowInvalid:  # a date such as 30 February
        return column


def _kind_of(texts: pa.ChunkedArray) -> pa.DataType | None:
    """The type that all of these texts stand for; a time has a zone if all of them name one."""

    def all_match(pattern: str) -> bool:
        return bool(pc.all(pc.match_substring_regex(texts, pattern)).as_py())

    if not all_match(_TIMESTAMP):
        return next((kind for pattern, kind in _TEXT_TYPES if all_match(pattern)), None)
    zoned = pc.match_substring_regex(texts, _ZONE)
    if pc.all(zoned).as_py():
        return pa.timestamp("us", "UTC")
    return None if pc.any(zoned).as_py() else pa.timestamp("us")
