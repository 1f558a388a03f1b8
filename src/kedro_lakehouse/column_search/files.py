"""Tables in files: csv, json, ndjson and parquet, read in batches."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.csv as pcsv
import pyarrow.json as pjson
import pyarrow.parquet as pq

from kedro_lakehouse.errors import UnreadableFileError

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIXES: Final = (".csv", ".tsv", ".json", ".ndjson", ".jsonl", ".parquet")
_NULLS: Final = ["", "NA", "N/A", "n/a", "NaN", "nan", "null", "NULL", "None", "#N/A", "<NA>"]
_SNIFFED: Final = 64 * 1024
_MOST_RAGGED: Final = 10_000
_BLOCK: Final = 4 * 1024 * 1024


def suffix_of(path: Path) -> str:
    """The kind of a file by its name, in lower case; what compresses it does not count."""
    return Path(path.name.removesuffix(".gz")).suffix.lower()


def table_files(path: Path) -> list[Path]:
    """The files that hold tables: the path itself, or all below a folder, sorted.

    Raises:
        UnreadableFileError: There is no such file or folder, or the file is of no known kind.
    """
    if path.is_dir():
        return sorted(p for p in path.rglob("*") if p.is_file() and suffix_of(p) in SUFFIXES)
    if not path.is_file() or suffix_of(path) not in SUFFIXES:
        detail = (
            f"it is none of {', '.join(SUFFIXES)}" if path.is_file() else "there is no such file or folder"
        )
        raise UnreadableFileError(table=path.stem, file=str(path), detail=detail, landed=False)
    return [path]


def read_batches(path: Path) -> Iterator[pa.RecordBatch | pa.Table]:
    """Yield the rows of a file; those of csv as text, so that nothing is lost on the way.

    Raises:
        UnreadableFileError: The file is not what its name says.
    """
    try:
        match suffix_of(path):
            case ".parquet":
                yield from pq.ParquetFile(path).iter_batches()
            case ".csv" | ".tsv":
                yield from _read_csv(path)
            case ".json":
                yield _read_json(path)
            case _:
                yield pjson.read_json(path)
    except (pa.ArrowException, OSError, UnicodeDecodeError, csv.Error, ValueError) as error:
        kind = type(error).__name__
        raise UnreadableFileError(table=path.stem, file=str(path), detail=kind, landed=False) from error


def _read_csv(path: Path) -> Iterator[pa.RecordBatch | pa.Table]:
    """Rows that are longer or shorter than the header are cut or filled up, and come last."""
    with pa.input_stream(path) as handle:
        head = handle.read(_SNIFFED)
    text = head.decode("utf-8-sig", errors="replace")
    delimiter = "\t" if suffix_of(path) == ".tsv" else _delimiter(text)
    names = _unique(next(csv.reader(io.StringIO(text), delimiter=delimiter), []))
    if not names:
        return
    ragged: list[list[str]] = []

    def fit(row: pcsv.InvalidRow) -> str:
        if len(ragged) < _MOST_RAGGED:
            ragged.extend(csv.reader([row.text], delimiter=delimiter))
        return "skip"

    with pcsv.open_csv(
        path,
        read_options=pcsv.ReadOptions(column_names=names, skip_rows=1, block_size=_BLOCK),
        parse_options=pcsv.ParseOptions(
            delimiter=delimiter, newlines_in_values=True, invalid_row_handler=fit
        ),
        convert_options=pcsv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.string()), strings_can_be_null=True, null_values=_NULLS
        ),
    ) as reader:
        yield from reader
    cells = ([None if text in _NULLS else text for text in row[: len(names)]] for row in ragged)
    rows = [dict(zip(names, [*row, *[None] * (len(names) - len(row))], strict=True)) for row in cells]
    yield pa.Table.from_pylist(rows, schema=pa.schema([(name, pa.string()) for name in names]))


def _delimiter(text: str) -> str:
    header = text.partition("\n")[0]
    return max(",;\t|", key=header.count)


def _unique(names: list[str]) -> list[str]:
    """Names as they are, without outer blanks; an empty or repeated one gets its place as a number."""
    found: list[str] = []
    for place, name in enumerate(name.strip() for name in names):
        found.append(name if name and name not in found else f"{name or 'column'}_{place + 1}")
    return found


def _read_json(path: Path) -> pa.Table:
    """One array of objects, or an object a line."""
    with pa.input_stream(path) as handle:
        raw = handle.read()
    if not raw.lstrip().startswith(b"["):
        return pjson.read_json(io.BytesIO(raw))
    rows: list[Any] = json.loads(raw)
    return pa.Table.from_pylist([row for row in rows if isinstance(row, dict)])
