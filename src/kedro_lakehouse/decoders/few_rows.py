"""Few rows in JSON lines, read by this process: only texts of which it is known what Spark makes of them.

The rules are those of ``RowLines`` and of ``Conversion``. Most rows need little of them: numbers, words, and
dates as ISO 8601 has them. At the first text beyond that (a number that does not fit, a nested value, what is
no JSON, a name that comes twice), ``NotPlainError`` leaves the whole batch to Spark, which knows what it is.
"""

from __future__ import annotations

import datetime as dt
import math
import re
import struct
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import POSITION, RAW
from kedro_lakehouse.decoders.lines import VALUE
from kedro_lakehouse.decoders.plain_json import NotPlainError, object_of
from kedro_lakehouse.decoders.records import FAILED, MALFORMED_RECORD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from kedro_lakehouse.changes.conversion import Conversion

Row = dict[str, str | None]
"""The fields of a row, each as the text that was sent."""

_INTEGER: Final = re.compile(r"-?[0-9]{1,19}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,17}(?:\.[0-9]{1,17})?(?:[eE][+-]?[0-9]{1,3})?")
_DECIMAL: Final = re.compile(r"-?([0-9]{1,38})(?:\.([0-9]{1,38}))?")
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_MOMENT: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2}[ T](?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\.[0-9]{1,6})?)"
    r"(Z|[+-](?:0[0-9]|1[0-4]):[0-5][0-9])?"
)
_BITS: Final[Mapping[type[T.DataType], int]] = {
    T.ByteType: 7,
    T.ShortType: 15,
    T.IntegerType: 31,
    T.LongType: 63,
}
_SMALLEST_FLOAT, _LARGEST_FLOAT = 1e-37, 1e37


def row_of(text: str | None) -> Row:
    """The fields of a row that is an object of simple values.

    Raises:
        NotPlainError: It is anything else, or Spark may read it in another way.
    """
    row = object_of(text)
    if any(isinstance(value, dict | list) for value in row.values()):
        raise NotPlainError
    return row


def rows_here(lines: pa.Table, kinds: Mapping[str, T.DataType]) -> pa.Table:
    """The rows of lines in the types of their columns.

    Args:
        lines: At least the column ``value``.
        kinds: The types of the columns to read, by the names in the rows.

    Raises:
        NotPlainError: Spark must read them.
    """
    from pyspark.sql.pandas.types import to_arrow_type

    if not can_read(kinds.values()):
        raise NotPlainError
    rows = [row_of(text) for text in lines[VALUE].to_pylist()]
    columns = [
        pa.array([value_of(row.get(name), kind) for row in rows], to_arrow_type(kind))
        for name, kind in kinds.items()
    ]
    return pa.Table.from_arrays(columns, names=list(kinds))


def events_of(lines: pa.Table, columns: Mapping[str, pa.Array]) -> pa.Table:
    """Decoded events of lines of which each is an event, and none is malformed or cannot be converted.

    The raw record is null: only rejected events need it, and Spark reads those.
    """
    none_failed = pa.array([[]] * lines.num_rows, pa.list_(pa.string()))
    carried = {
        POSITION: lines[POSITION],
        RAW: pa.nulls(lines.num_rows, pa.string()),
        MALFORMED_RECORD: pa.array([False] * lines.num_rows, pa.bool_()),
        FAILED: none_failed,
    }
    return pa.table({**columns, **carried})


def has_pattern(conversion: Conversion) -> bool:
    """Whether a pattern of Java's says what the column's texts mean."""
    if isinstance(conversion.kind, T.DateType):
        return conversion.date_format is not None
    moments = T.TimestampType | T.TimestampNTZType
    return isinstance(conversion.kind, moments) and conversion.timestamp_format is not None


def can_read(kinds: Iterable[T.DataType]) -> bool:
    """Whether texts of columns of these types can be read here at all."""
    return all(type(kind) in _READ for kind in kinds)


def value_of(text: str | None, kind: T.DataType) -> Any:
    """A text as a value of a type, as Arrow takes it; null stays null.

    Raises:
        NotPlainError: Spark may read it as another value, or as none.
    """
    try:
        return None if text is None else _READ[type(kind)](text, kind)
    except (KeyError, ValueError, OverflowError) as error:  # such as a day that there is not
        raise NotPlainError from error


def _integer(text: str, kind: T.DataType) -> int:
    if not _INTEGER.fullmatch(text):
        raise NotPlainError
    number = int(text)
    if number.bit_length() > _BITS[type(kind)]:
        raise NotPlainError
    return number


def _double(text: str, _: T.DataType) -> float:
    number = float(text) if _NUMBER.fullmatch(text) else math.inf
    if math.isinf(number):
        raise NotPlainError
    return number


def _float(text: str, kind: T.DataType) -> float:
    """A number of 32 bits; not one that lies half-way between two, as a double can tell."""
    number = _double(text, kind)
    (bits,) = struct.unpack("<Q", struct.pack("<d", number))
    if number and (bits % 2**29 == 2**28 or not _SMALLEST_FLOAT < abs(number) < _LARGEST_FLOAT):
        raise NotPlainError
    found: float = struct.unpack("<f", struct.pack("<f", number))[0]
    return found


def _decimal(text: str, kind: T.DataType) -> Decimal:
    assert isinstance(kind, T.DecimalType)  # noqa: S101 - by the table of types
    found = _DECIMAL.fullmatch(text)
    if found is None or len(found[1]) > kind.precision - kind.scale or len(found[2] or "") > kind.scale:
        raise NotPlainError
    return Decimal(text)


def _boolean(text: str, _: T.DataType) -> bool:
    if text not in ("true", "false"):
        raise NotPlainError
    return text == "true"


def _date(text: str, _: T.DataType) -> dt.date:
    if not _DATE.fullmatch(text):
        raise NotPlainError
    return dt.date.fromisoformat(text)


def _local(text: str, _: T.DataType) -> dt.datetime:
    found = _MOMENT.fullmatch(text)
    if found is None or found[2] is not None:
        raise NotPlainError
    return dt.datetime.fromisoformat(found[1])


def _moment(text: str, _: T.DataType) -> dt.datetime:
    """A moment; in UTC, the session's zone, where the text names none."""
    found = _MOMENT.fullmatch(text)
    if found is None:
        raise NotPlainError
    zone = "Z" if found[2] is None else found[2]
    return dt.datetime.fromisoformat(found[1] + zone).astimezone(dt.UTC)


_READ: Final[Mapping[type[T.DataType], Callable[[str, T.DataType], Any]]] = {
    T.StringType: lambda text, _: text,
    T.BooleanType: _boolean,
    T.DoubleType: _double,
    T.FloatType: _float,
    T.DecimalType: _decimal,
    T.DateType: _date,
    T.TimestampType: _moment,
    T.TimestampNTZType: _local,
} | dict.fromkeys(_BITS, _integer)
