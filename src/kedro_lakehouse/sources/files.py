"""List landed files and inspect what they hold: column names, types, and whether there are rows."""

from __future__ import annotations

import contextlib
import csv
import errno
import fnmatch
import logging
import os
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from kedro_lakehouse.errors import SourceNotFoundError, UnreadableFileError, cut, listed
from kedro_lakehouse.sources.rewritten import known_times

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa
    from fsspec import AbstractFileSystem
    from pyspark.sql import types as T

    from kedro_lakehouse.config.sources import CsvOptions
    from kedro_lakehouse.decoders.lines import LineShape
    from kedro_lakehouse.names import TableName

logger = logging.getLogger(__name__)

Load = Literal["full_load", "changes"]
_FIRST_CHARACTERS: Final = 2**16


@dataclass(frozen=True, order=True)
class LandedFile:
    """A file as it was when its folder was listed; ``modified`` is in milliseconds since the epoch."""

    path: str
    size: int
    modified: int

    @property
    def name(self) -> str:
        """The file's own name."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True)
class FileShape:
    """What a file holds: column names with types, and whether it has rows (None: not known yet).

    A text file's columns are strings; a file of zero bytes has none. A file of JSON lines may hold several
    shapes: ``lines`` is then what its decoder found. ``nanoseconds`` are the columns of parquet whose times
    are stored so, as pandas does.
    """

    file: LandedFile
    load: Load
    columns: tuple[tuple[str, T.DataType], ...]
    has_rows: bool | None
    self_describing: bool
    lines: LineShape | None = None
    nanoseconds: frozenset[str] = frozenset()


def list_files(
    root: str, patterns: Sequence[str], *, table: TableName, within: str | None = None
) -> list[LandedFile]:
    """List the files below a folder whose names match a pattern, sorted by path.

    One call never returns a later file without the earlier ones. Because a listing takes a while, it may
    hold a file that landed meanwhile and lack an earlier one. So the folder is listed twice, and files that
    land or change meanwhile are left for the next call. Only the store's own times are compared with each
    other, never a clock of this machine. Hidden and unfinished files are skipped. What is not a file of the
    folder ``within`` (by default ``root``) is skipped with a warning: see ``is_inside``.

    Raises:
        SourceNotFoundError: There is no such folder, or it is a link that leads out of its source's folder.
        PermissionError: The folder, or one in it, may not be read.
        UnreadableFileError: A file has a name that cannot be read from a disk.
    """
    import fsspec
    from fsspec.implementations.local import LocalFileSystem

    fs, path = fsspec.core.url_to_fs(root)
    fs.invalidate_cache()  # object storage's client caches listings for the life of the process
    if not fs.isdir(path):
        if isinstance(fs, LocalFileSystem):
            _refuse_forbidden(path, os.F_OK)
        remedy = "Create the folder, or correct `path` or `entity` of its declarations."
        raise SourceNotFoundError(table=table, path=root, remedy=remedy)
    _, source = fsspec.core.url_to_fs(within or root)
    if not _leads_inside(fs, path, source):
        remedy = "A link that leads out of its source's `path` is not followed: put a folder there."
        raise SourceNotFoundError(table=table, path=root, remedy=remedy)
    first = _listed(fs, path)
    second = _listed(fs, path) if first else {}
    chosen = _settled(set(first), set(second)) if first else set()
    found = []
    for file in sorted(f for f in chosen if any(fnmatch.fnmatchcase(f.name, p) for p in patterns)):
        name, facts = second[file]
        if not is_inside(fs, name, facts, source):
            logger.warning(
                "%s: %s is no file of its source's folder, and is not read", table, cut(file.name, 100)
            )
            continue
        if isinstance(fs, LocalFileSystem) and ":" in name.removeprefix(source):
            raise UnreadableFileError(
                table=table, file=file.name, detail="Hadoop takes a ':' in a path on disk for a scheme"
            )
        found.append(file)
    return found


def _settled(first: set[LandedFile], second: set[LandedFile]) -> set[LandedFile]:
    """The unchanged files of the first listing, plus files that it missed and that are older than its newest.

    If more files of the newest one's time landed meanwhile, files of that time are left for the next call.
    """
    newest = max(f.modified for f in first)
    meanwhile = second - first
    # Object storage gives times in whole seconds, so even more files of the newest second may be landing.
    unsettled = any(f.modified == newest for f in meanwhile)
    changed = {f.path for f in first - second}
    earlier = {f for f in meanwhile if f.modified < newest and f.path not in changed}
    return {f for f in first & second if f.modified < newest or not unsettled} | earlier


def _listed(fs: AbstractFileSystem, path: str) -> dict[LandedFile, tuple[str, Mapping[str, Any]]]:
    """The files below a folder as they are now, with path and facts; hidden and unfinished ones left out."""
    from fsspec.implementations.local import LocalFileSystem

    fs.invalidate_cache()  # object storage's client caches listings for the life of the process
    found: dict[LandedFile, tuple[str, Mapping[str, Any]]] = {}
    # What fsspec may not list, it leaves out.
    entries = fs.find(path, detail=True, withdirs=isinstance(fs, LocalFileSystem))
    times = known_times(fs, entries)
    for name, facts in entries.items():
        if _is_hidden(name, path):
            continue
        if facts["type"] == "directory":
            _refuse_forbidden(name, os.R_OK | os.X_OK)
        elif not name.endswith((".tmp", ".part", ".crc")):
            modified = times.get(name, int(_modified(facts) * 1000))
            found[LandedFile(fs.unstrip_protocol(name), int(facts["size"]), modified)] = name, facts
    return found


def _is_hidden(name: str, root: str) -> bool:
    parts = name.removeprefix(root).strip("/").split("/")
    return any(part.startswith(("_", ".")) and part not in (".", "..") for part in parts)


def refuse_forbidden(files: Iterable[LandedFile]) -> None:
    """Refuse local files that may not be read, before a reader calls them damaged.

    Raises:
        PermissionError: A file may not be read.
    """
    for file in files:
        path = file.path.removeprefix("file://")
        if "://" not in path:
            _refuse_forbidden(path, os.R_OK)


def _refuse_forbidden(path: str, wanted: int) -> None:
    """Raise if a path may not even be looked at, or is there and may not be used as wanted."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        Path(path).stat()
        if not os.access(path, wanted):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), path)


def is_inside(fs: Any, path: str, facts: Mapping[str, Any], source: str) -> bool:
    """Whether a listed path is a file of a source's folder: no pipe, and no link or name that leads out.

    A key of object storage may hold ``..`` or nothing between two ``/``: read as a path, it would be that
    of another file.
    """
    if any(part in ("", ".", "..") for part in path.removeprefix(source).strip("/").split("/")):
        return False
    if facts.get("islink"):
        return bool(fs.isfile(path)) and _leads_inside(fs, path, source)
    return str(facts.get("type", "file")) == "file"


def _leads_inside(fs: Any, path: str, source: str) -> bool:
    """Whether a path lies in a source's folder even after links are followed; object storage has no links."""
    from fsspec.implementations.local import LocalFileSystem

    return not isinstance(fs, LocalFileSystem) or Path(path).resolve().is_relative_to(Path(source).resolve())


def opened(file: LandedFile, mode: str, **options: Any) -> Any:
    """Open a landed file by its path: fsspec would split an address such as ``a::b`` into several."""
    import fsspec

    fs = fsspec.filesystem(file.path.partition("://")[0] if "://" in file.path else "file")
    return fs.open(fs._strip_protocol(file.path), mode, **options)  # noqa: SLF001 - its public ways split it


def _modified(facts: dict[str, Any]) -> float:
    stamp = facts.get("mtime", facts.get("LastModified", 0))
    return stamp.timestamp() if isinstance(stamp, datetime) else float(stamp)


def bounded(files: Iterable[LandedFile], max_files: int, max_bytes: int) -> list[list[LandedFile]]:
    """Cut a backlog into batches of at most ``max_files`` and ``max_bytes``, with at least one file each."""
    batches: list[list[LandedFile]] = []
    room = 0
    for file in files:
        if not batches or len(batches[-1]) >= max_files or room < file.size:
            batches.append([])
            room = max_bytes
        batches[-1].append(file)
        room -= file.size
    return batches


def shapes(  # noqa: PLR0913 - what to look at, and how
    files: Sequence[tuple[LandedFile, Load]],
    *,
    file_format: str,
    options: dict[Load, CsvOptions],
    table: TableName,
    headers: dict[Load, bool],
    fallback: dict[Load, Sequence[str]],
) -> list[FileShape]:
    """Inspect files in parallel: the footers of parquet, the headers of csv.

    Raises:
        UnreadableFileError: A file is truncated or not of the declared format.
    """

    def shape(landed: tuple[LandedFile, Load]) -> FileShape:
        file, load = landed
        if file_format == "parquet":
            return _parquet_shape(file, load, table)
        if headers[load] and options[load].columns is None:
            return _csv_header(file, load, options[load], table)
        return _headerless(file, load, options[load].columns or tuple(fallback[load]), table)

    with ThreadPoolExecutor(max_workers=8) as pool:
        return list(pool.map(shape, files))


def _parquet_shape(file: LandedFile, load: Load, table: TableName) -> FileShape:
    import pyarrow as pa
    import pyarrow.parquet as pq
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import from_arrow_schema

    from kedro_lakehouse.session.arrow import as_spark_reads, unread_by_spark

    try:
        with opened(file, "rb") as handle:
            footer = pq.ParquetFile(handle)
            rows = footer.metadata.num_rows
            if (unread := unread_by_spark(footer.schema_arrow)) is not None:
                raise UnreadableFileError(
                    table=table,
                    file=file.name,
                    detail=f"Spark reads no {unread.type}: column {cut(unread.name, 100)}",
                    remedy="Write the column as another type, such as text",
                )
            schema = from_arrow_schema(as_spark_reads(footer.schema_arrow), prefer_timestamp_ntz=True)
            fine = [c for c in map(footer.schema.column, range(len(footer.schema))) if _in_nanoseconds(c)]
    except PySparkTypeError as error:
        raise UnreadableFileError(
            table=table, file=file.name, detail="a column's type is not known"
        ) from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise UnreadableFileError(
            table=table, file=file.name, detail="not a complete parquet file"
        ) from error
    if nested := [c.path for c in fine if c.path != c.name]:
        raise UnreadableFileError(
            table=table,
            file=file.name,
            detail=f"Spark reads no times in nanoseconds within a column: {cut(nested[0], 100)}",
            remedy="Write them in microseconds",
        )
    columns = tuple((f.name, f.dataType) for f in schema.fields)
    nanoseconds = frozenset(c.name for c in fine)
    return FileShape(file, load, columns, rows > 0, self_describing=True, nanoseconds=nanoseconds)


def parquet_rows(file: LandedFile, schema: pa.Schema) -> pa.Table | None:
    """The rows of a parquet file in the types of a schema; None if it may mean what only Spark knows.

    Raises:
        pyarrow.ArrowInvalid, OSError: The file is damaged, or a value does not fit.
    """
    import pyarrow.parquet as pq

    with opened(file, "rb") as handle:
        found = pq.ParquetFile(handle, page_checksum_verification=True)
        kinds = [found.schema.column(i).physical_type for i in range(len(found.schema))]
        written = found.metadata.metadata or {}
        if "INT96" in kinds or any(key.startswith(b"org.apache.spark.legacy") for key in written):
            return None  # of days before 1900 they may mean others
        return found.read().select(schema.names).cast(schema)


def _in_nanoseconds(column: Any) -> bool:
    """Whether a column of a parquet file holds counts of nanoseconds; INT96, which is older, Spark reads."""
    return column.physical_type == "INT64" and "nanoseconds" in column.logical_type.to_json()


def _csv_header(file: LandedFile, load: Load, options: CsvOptions, table: TableName) -> FileShape:
    from pyspark.sql import types as T

    try:
        with opened(
            file, "rt", compression=options.compression or "infer", encoding=options.encoding, newline=""
        ) as handle:
            names = next(csv.reader(handle, **_dialect(options)), [])
    except UnicodeDecodeError as error:
        kind, remedy = _kind_by_first_bytes(file)
        raise UnreadableFileError(
            table=table,
            file=file.name,
            detail=f"it is {kind}" if kind else f"it is not in the encoding {options.encoding}",
            remedy=remedy or "Correct csv.encoding in sources.yml, or deliver it again",
        ) from error
    except (OSError, EOFError, zlib.error, csv.Error) as error:
        raise UnreadableFileError(
            table=table, file=file.name, detail="its first line cannot be read"
        ) from error
    clean = [name.removeprefix("\ufeff") for name in names]
    if options.unnamed is not None and clean.count("") == 1:
        clean[clean.index("")] = options.unnamed
    # The error gives positions, not names: if a file lacks its header, the names are values of a row.
    wrong = [n for n, name in enumerate(clean, 1) if not name or name in clean[: n - 1]]
    if clean and wrong:
        raise UnreadableFileError(
            table=table,
            file=file.name,
            detail=f"its header has empty or repeated names: number {listed(wrong)}",
        )
    return FileShape(
        file, load, tuple((n, T.StringType()) for n in clean), None if clean else False, self_describing=False
    )


def first_lines(file: LandedFile, options: CsvOptions) -> list[str]:
    """The whole lines among the first characters of a text file, without its byte order mark."""
    with opened(file, "rt", compression=options.compression or "infer", encoding=options.encoding) as handle:
        text: str = handle.read(_FIRST_CHARACTERS)
    lines = text.removeprefix("\ufeff").split("\n")
    return lines if len(text) < _FIRST_CHARACTERS else lines[:-1]


def _kind_by_first_bytes(file: LandedFile) -> tuple[str, str]:
    """What kind of file begins with these bytes, and the remedy; empty texts where no known kind does."""
    with opened(file, "rb") as handle:
        first = handle.read(4)
    known = {
        b"PAR1": ("parquet, not csv", "Correct file_format in sources.yml, or the file's name"),
        b"\x1f\x8b": ("compressed with gzip", "Name it `.csv.gz`, or set csv.compression in sources.yml"),
        b"PK\x03\x04": ("a zip archive", "Deliver the file that is in it"),
    }
    return next((found for sign, found in known.items() if first.startswith(sign)), ("", ""))


def _dialect(options: CsvOptions) -> dict[str, Any]:
    quoting = {"quotechar": options.quote} if options.quote else {"quoting": csv.QUOTE_NONE}
    return {"delimiter": options.delimiter, **quoting}


def _headerless(file: LandedFile, load: Load, names: Sequence[str], table: TableName) -> FileShape:
    from pyspark.sql import types as T

    if not names:
        raise UnreadableFileError(
            table=table,
            file=file.name,
            detail="it has no header, and neither `csv.columns` nor `types` names its columns",
        )
    columns = tuple((n, T.StringType()) for n in names)
    return FileShape(file, load, columns, None if file.size else False, self_describing=False)


def line_shapes(files: Sequence[tuple[LandedFile, Load]], found: Sequence[LineShape]) -> list[FileShape]:
    """The shapes of files of JSON lines, by what was found in them; a file without a finding has no rows."""
    by_place: dict[str, list[LineShape]] = {}
    for shape in found:
        by_place.setdefault(shape.place, []).append(shape)
    looked: list[FileShape] = []
    for file, load in files:
        looked += [
            FileShape(file, load, shape.columns, shape.has_rows, shape.self_describing, lines=shape)
            for shape in by_place.get(file.name, ())
        ]
        if file.name not in by_place:
            looked.append(FileShape(file, load, (), has_rows=False, self_describing=False))
    return looked
