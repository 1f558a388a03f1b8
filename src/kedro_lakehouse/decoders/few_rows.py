"""Few rows in JSON lines, read by this process: only texts of which it is known what Spark makes of them.

The rules are those of ``RowLines`` and of ``Conversion``. Most rows need little of them: numbers, words, and
dates as ISO 8601 has them. At the first text beyond that (a number that does not fit, a nested value, what is
no JSON, a name that comes twice), ``NotPlainError`` leaves the whole batch to Spark, which knows what it is.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import types as T

from kedro_lakehouse.decoders.lines import MARK, VALUE, LineShape, names_of, texts
from kedro_lakehouse.decoders.records import FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

Row = dict[str, str | None]
"""The fields of a row, each as the text that was sent."""

_LONGEST_NAME: Final = 1_000
_LONGEST_NUMBER: Final = 100
_INTEGER: Final = re.compile(r"-?[0-9]{1,18}")
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}(?:\.[0-9]{1,15})?")
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


class NotPlainError(ValueError):
    """A text of which only Spark is known to tell the meaning."""


class _Nested:
    """Stands for an object or an array within a row."""


def row_of(text: str | None) -> Row:
    """The fields of a row that is an object of simple values.

    Raises:
        NotPlainError: It is anything else, or Spark may read it in another way.
    """
    row = _fields(text)
    if any(isinstance(value, _Nested) for value in row.values()):
        raise NotPlainError
    return row


def shapes_here(lines: pa.Table) -> list[LineShape] | None:
    """The names of the fields in each place, as ``RowLines.discover`` finds them; None if Spark must look."""
    names: dict[str, set[str]] = {}
    try:
        for place, text in zip(lines[FILE].to_pylist(), lines[VALUE].to_pylist(), strict=True):
            names.setdefault(place, set()).update(_fields(text))
    except NotPlainError:
        return None
    return [LineShape(place=place, columns=texts(names_of([found]))) for place, found in names.items()]


def rows_here(lines: pa.Table, kinds: Mapping[str, T.DataType]) -> pa.Table | None:
    """The rows of lines in the types of their columns; None if Spark must read them.

    Args:
        lines: At least the column ``value``.
        kinds: The types of the columns to read, by the names in the rows.
    """
    from pyspark.sql.pandas.types import to_arrow_type

    if not can_read(kinds.values()):
        return None
    try:
        rows = [row_of(text) for text in lines[VALUE].to_pylist()]
        columns = [
            pa.array([value_of(row.get(name), kind) for row in rows], to_arrow_type(kind))
            for name, kind in kinds.items()
        ]
    except NotPlainError:
        return None
    return pa.Table.from_arrays(columns, names=list(kinds))


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
    except (ValueError, OverflowError) as error:  # a day or a moment that there is not
        raise NotPlainError from error


def _fields(text: str | None) -> dict[str, Any]:
    """The fields of an object, nested ones without their value."""
    if text is None or MARK[0] in text:
        raise NotPlainError
    try:
        found = _JSON.decode(text)
    except (ValueError, RecursionError) as error:
        raise NotPlainError from error
    if not isinstance(found, _Object):
        raise NotPlainError
    return {_whole(name): _text(value) for name, value in found.fields.items()}


class _Object(_Nested):
    """An object, by the fields in it."""

    def __init__(self, pairs: Sequence[tuple[str, Any]]) -> None:
        self.fields = dict(pairs)
        if len(self.fields) < len(pairs) or any(len(name) > _LONGEST_NAME for name in self.fields):
            raise NotPlainError


def _text(value: Any) -> str | _Nested | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _whole(value)
    return _Nested() if isinstance(value, list) else value


def _whole(text: str) -> str:
    """Text without half a character, and without our own mark."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise NotPlainError from error
    if MARK[0] in text:
        raise NotPlainError
    return text


def _digits(text: str) -> str:
    if not _INTEGER.fullmatch(text) or text == "-0":
        raise NotPlainError
    return text


def _fraction(text: str) -> str:
    if len(text) > _LONGEST_NUMBER:
        raise NotPlainError
    return text


def _refused(text: str) -> Any:
    raise NotPlainError(text)


_JSON: Final = json.JSONDecoder(
    object_pairs_hook=_Object, parse_int=_digits, parse_float=_fraction, parse_constant=_refused
)


def _integer(text: str, kind: T.DataType) -> int:
    if not _INTEGER.fullmatch(text):
        raise NotPlainError
    number = int(text)
    if number.bit_length() > _BITS[type(kind)]:
        raise NotPlainError
    return number


def _double(text: str, _: T.DataType) -> float:
    if not _NUMBER.fullmatch(text):
        raise NotPlainError
    return float(text)


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
    T.DecimalType: _decimal,
    T.DateType: _date,
    T.TimestampType: _moment,
    T.TimestampNTZType: _local,
} | dict.fromkeys(_BITS, _integer)
