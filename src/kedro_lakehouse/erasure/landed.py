"""Remove records of subjects from landed files, in place.

A file keeps its size and the time that the ledger knows it by: it is not new, and a rebuild reads it with all
others. The bytes of a removed line become blanks; a file of parquet or gzip, which becomes smaller, is filled
up where its readers look at nothing.
"""

from __future__ import annotations

import contextlib
import csv
import gzip
import io
import json
import zlib
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.decoders.bson.decoder import DOCUMENT
from kedro_lakehouse.decoders.bson.documents import document_of
from kedro_lakehouse.decoders.bson.types import BETWEEN
from kedro_lakehouse.erasure.in_place import of_bytes, rewrite
from kedro_lakehouse.errors import SourceNotFoundError
from kedro_lakehouse.file_search.wanted import Wanted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import pyarrow as pa

    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.sources.base import FileSource
    from kedro_lakehouse.sources.files import LandedFile

_AT_ONCE: Final = 4
"""So many files are read at a time: those in S3 are waited for."""
_GZIP: Final = b"\x1f\x8b"
_COMMENT: Final = 0x10
"""The flag of gzip's header for a comment, which ends with a zero byte (RFC 1952)."""
_FOOTER: Final = 8
"""The length of a parquet file's footer, and the magic, stand in its last bytes."""
_SMALLER: Final = (("zstd", 9), ("gzip", 9))
"""Codecs and levels for a file that would become larger by its own: all readers know them."""


def erase_landed(table: LakeTable, name: str, wanted: Wanted, *, leave: frozenset[str]) -> list[str]:
    """Remove the records of a table's landed files that name subjects; return the files that were changed.

    Files on a local disk and in S3 are changed. Those of other stores, those that other tables read as well
    (``leave``), that are packed otherwise than by gzip, or whose records take several lines stay as they are.
    The search that follows an erasure names all files that still hold a subject.

    Args:
        name: The column that names subjects.
    """
    source: Any = table.open_source()
    if getattr(source, "gives", "") == "ranges":
        return []
    try:
        files: Sequence[LandedFile] = source.files()
    except SourceNotFoundError:
        return []
    files = [file for file in files if file.path not in leave]

    def is_changed(file: LandedFile) -> bool:
        # The ledger knows the file of a pull by its manifest, whatever time it has.
        time = None if table.is_pulled else file.modified
        make = of_bytes(partial(without_subjects, table, file, name, wanted))
        return rewrite(file.path, make, modified=time)

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="erase") as pool:
        changed = list(pool.map(is_changed, files))
    return [file.path for file, is_so in zip(files, changed, strict=True) if is_so]


def without_subjects(
    table: LakeTable, file: LandedFile, name: str, wanted: Wanted, content: bytes
) -> bytes | None:
    """The bytes of a landed file without the records that name subjects: so many as before.

    None if the file names none, or its records cannot be told apart.

    Args:
        name: The column of the table that names subjects.
    """
    renamed = {new: old for old, new in table.config.rename.items()}
    name = renamed.get(name, name)
    wanted = Wanted.of(wanted.values, [*wanted.columns, name])
    file_format = str(getattr(table.source_config, "file_format", "json"))
    if file_format == "parquet":
        has_documents = table.source_config.documents_of(table.config) is not None
        return _parquet(content, name, wanted, has_documents=has_documents)
    text = gzip.decompress(content) if content.startswith(_GZIP) else content
    if getattr(table.source_config, "json_layout", "lines") == "array":
        return None  # its records share lines
    if file_format == "json":
        return _lines(content, text, names_in_json(name, wanted))
    return _lines(content, text, _csv_rule(table.open_source(), file, text, name, wanted))


def _lines(content: bytes, text: bytes, names: Callable[[str], bool] | None) -> bytes | None:
    """The bytes of a file of text without the lines that name a subject; None if nothing is to be changed."""
    blanked = text if names is None else _blanked(text, names)
    if blanked == text:
        return None
    return _packed(blanked, len(content)) if content.startswith(_GZIP) else blanked


def _blanked(text: bytes, names: Callable[[str], bool]) -> bytes:
    """A text whose lines that name a subject are blank."""
    lines = text.split(b"\n")
    for number, line in enumerate(lines):
        content = line.removesuffix(b"\r")
        if content and names(content.decode("utf-8", errors="surrogateescape")):
            lines[number] = b" " * len(content) + line[len(content) :]
    return b"\n".join(lines)


def names_in_json(name: str, wanted: Wanted) -> Callable[[str], bool]:
    """A line of JSON names a subject if any object in it does, such as the rows in a message."""

    def is_about(line: str) -> bool:
        try:
            return _names(json.loads(line[line.index("{") :] if "{" in line else line), name, wanted)
        except ValueError:
            return wanted.holds(line)

    return is_about


def _names(value: Any, name: str, wanted: Wanted) -> bool:
    """Whether an object, or any object in it, has a subject in the field of this name."""
    if isinstance(value, dict):
        inner = any(_names(one, name, wanted) for one in value.values())
        return inner or wanted.is_written(str(value.get(name)))
    return isinstance(value, list) and any(_names(one, name, wanted) for one in value)


def _csv_rule(
    source: FileSource, file: LandedFile, text: bytes, name: str, wanted: Wanted
) -> Callable[[str], bool] | None:
    """A line of CSV names a subject by its column, where the file says which one that is, else by any."""
    options = source.options[source.load_of(file)]
    if options.multiline or options.encoding.upper().replace("-", "") not in ("UTF8", "ASCII", "USASCII"):
        return None
    head = text.partition(b"\n")[0].removesuffix(b"\r").decode("utf-8", errors="surrogateescape")
    has_header = source.headers[source.load_of(file)]
    named = _cells(head, options) if has_header else []
    columns = [*(options.columns or [cell or options.unnamed for cell in named])]
    at = columns.index(name) if name in columns else None

    def is_about(line: str) -> bool:
        if has_header and line == head:
            return False
        cells = _cells(line, options)
        if at is not None and at < len(cells):
            return wanted.is_written(cells[at])
        return any(wanted.is_written(cell) for cell in cells)

    return is_about


def _cells(line: str, options: Any) -> list[str]:
    quoting: Any = {"quotechar": options.quote} if options.quote else {"quoting": csv.QUOTE_NONE}
    text = line.removeprefix("\ufeff")
    return next(csv.reader([text], delimiter=options.delimiter, **quoting), [])


def _packed(text: bytes, size: int) -> bytes | None:
    """Text packed by gzip into so many bytes, by a comment in its header; None if it does not fit."""
    body = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    packed = body.compress(text) + body.flush()
    tail = zlib.crc32(text).to_bytes(4, "little") + (len(text) & 0xFFFFFFFF).to_bytes(4, "little")
    head = _GZIP + bytes([8, _COMMENT]) + b"\0\0\0\0\0\xff"
    spare = size - len(head) - 1 - len(packed) - len(tail)
    return head + b" " * spare + b"\0" + packed + tail if spare >= 0 else None


def _parquet(content: bytes, name: str, wanted: Wanted, *, has_documents: bool) -> bytes | None:
    """A parquet file without the rows that name a subject, filled up between its last page and its footer."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    opened = pq.ParquetFile(io.BytesIO(content))
    if not has_documents and name not in opened.schema_arrow.names:
        return None
    rows = opened.read()
    if has_documents:
        about = _of_documents(rows[DOCUMENT], name, wanted)
    else:
        sought = pa.array(_sought(rows.schema.field(name).type, wanted), rows.schema.field(name).type)
        about = pc.is_in(rows[name], sought)
    if not pc.any(about).as_py():
        return None
    kept = rows.filter(pc.invert(about))
    groups = [opened.metadata.row_group(i) for i in range(opened.metadata.num_row_groups)]
    columns = [group.column(i) for group in groups for i in range(group.num_columns)]
    own = columns[0].compression.lower().replace("uncompressed", "none")
    # A dictionary that the file does not have may take more room than there is.
    with_dictionary = sorted({one.path_in_schema for one in columns if one.has_dictionary_page})
    for codec, level in ((own, None), *_SMALLER):
        out = io.BytesIO()
        # The very types of the file: nanoseconds and the older encoding of times stay as they were.
        pq.write_table(
            kept, out, compression=codec, compression_level=level, use_dictionary=with_dictionary,
            row_group_size=max(group.num_rows for group in groups),
            use_deprecated_int96_timestamps=_has_int96(opened),
        )  # fmt: skip
        made = out.getvalue()
        spare = len(content) - len(made)
        if spare >= 0:
            footer = int.from_bytes(made[-_FOOTER:-4], "little") + _FOOTER
            return made[:-footer] + b"\0" * spare + made[-footer:]
    return None


def _of_documents(documents: pa.ChunkedArray, name: str, wanted: Wanted) -> pa.Array:
    """Which documents name a subject: in a field of this name, at any depth, or as what is no document."""
    import pyarrow as pa

    field = name.rpartition(BETWEEN)[2]

    def is_about(raw: bytes) -> bool:
        document = document_of(raw)
        return wanted.holds_bytes(raw) if document is None else _names(document, field, wanted)

    return pa.array([is_about(raw) for raw in documents.to_pylist()], pa.bool_())


def _sought(kind: pa.DataType, wanted: Wanted) -> Sequence[Any]:
    import pyarrow as pa

    is_text = pa.types.is_string(kind) or pa.types.is_large_string(kind)
    return list(wanted.values) if is_text else wanted.of_type(kind)


def _has_int96(opened: Any) -> bool:
    return any(opened.schema.column(i).physical_type == "INT96" for i in range(len(opened.schema)))


def files_of_others(
    own: LakeTable, name: str, others: Iterable[tuple[LakeTable, str | None]]
) -> frozenset[str]:
    """Landed files, archived ones too, that also tables read where another column, or none, names subjects.

    Args:
        name: The column of the table itself.
        others: The declared tables, each with the column that names subjects in it.
    """
    found: set[str] = set()
    for other, named_by in others:
        if other.name == own.name or other.config.source is None or named_by == name:
            continue
        source: Any = other.open_source()
        if getattr(source, "gives", "") != "ranges":
            found |= {file.path for file in other.open_ledger().planned_ever()}
            with contextlib.suppress(SourceNotFoundError):
                found |= {file.path for file in source.files()}
    return frozenset(found)
