"""Write the answer of a query to a file, batch by batch, as csv, json or parquet."""

from __future__ import annotations

import json
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, Literal

from kedro_lakehouse.query.errors import QueryError
from kedro_lakehouse.query.values import plain, unique_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import pyarrow as pa

Format = Literal["csv", "json", "parquet"]
FORMATS: Final[tuple[Format, ...]] = ("csv", "json", "parquet")
"""``json`` is one object a line."""


def write_result(batches: pa.RecordBatchReader, file: Path | IO[bytes], kind: Format) -> int:
    """Write all batches to a new file, or to one that is open for bytes; how many rows there were.

    Raises:
        QueryError: A column's type is none of the format's.
    """
    import pyarrow as pa

    rows, columns = 0, unique_names(batches.schema.names)
    try:
        schema = pa.schema(list(map(_renamed, batches.schema, columns)))
        with _writer(schema, file, kind) as write:
            for batch in batches:
                write(pa.record_batch(batch.columns, schema=schema))
                rows += batch.num_rows
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid) as error:
        raise QueryError(
            problem=f"The answer has a type that {kind} does not hold.",
            remedy="Cast the column, such as `cast(length as varchar)`, or ask for another format.",
        ) from error
    return rows


@contextmanager
def _writer(
    schema: pa.Schema, file: Path | IO[bytes], kind: Format
) -> Iterator[Callable[[pa.RecordBatch], None]]:
    if kind == "parquet":
        from pyarrow.parquet import ParquetWriter

        with ParquetWriter(file, schema) as parquet:
            yield parquet.write_batch
    elif kind == "csv":
        from pyarrow.csv import CSVWriter

        flat = _flat_schema(schema)
        with CSVWriter(file, flat) as csv:
            yield lambda batch: csv.write_batch(_flat(batch, flat))
    else:
        with nullcontext(file) if not isinstance(file, Path) else file.open("wb") as lines:
            yield lambda batch: lines.writelines(_line(row).encode() for row in batch.to_pylist())


def _line(row: dict[str, Any]) -> str:
    return json.dumps(plain(row), ensure_ascii=False, separators=(",", ":")) + "\n"


def _renamed(field: pa.Field, name: str) -> pa.Field:
    return field.with_name(name)


def _flat_schema(schema: pa.Schema) -> pa.Schema:
    """The schema with text in the place of lists, structs, maps and bytes, which csv has not."""
    import pyarrow as pa

    return pa.schema([field.with_type(pa.string()) if _is_no_cell(field.type) else field for field in schema])


def _flat(batch: pa.RecordBatch, flat: pa.Schema) -> pa.RecordBatch:
    import pyarrow as pa

    made = [
        pa.array([None if v is None else _cell(v) for v in column.to_pylist()], pa.string())
        if _is_no_cell(column.type)
        else column
        for column in batch.columns
    ]
    return pa.record_batch(made, schema=flat)


def _cell(value: object) -> str:
    shown = plain(value)
    return shown if isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)


def _is_no_cell(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_nested(kind) or pa.types.is_binary(kind) or pa.types.is_large_binary(kind))
