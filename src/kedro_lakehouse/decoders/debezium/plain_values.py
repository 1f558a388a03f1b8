"""Read a value of a message without Spark, as the SQL of ``types`` reads its text.

A reader takes what ``plain_json`` gives, never null. Where it is not known what Spark would read, or where
Spark would read nothing, it raises ``NotPlainError``.
"""

from __future__ import annotations

import base64
import datetime as dt
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from pyspark.sql import types as T

from kedro_lakehouse.decoders.few_rows import value_of
from kedro_lakehouse.decoders.plain_json import NotPlainError, Number

PlainReader = Callable[[Any], Any]
_LONG: Final = T.LongType()
_DAYS: Final = re.compile(r"-?[0-9]+")
_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - a local time
_SMALL_BYTES, _MOST_BYTES = 16, 36
"""Of how many bytes a number may be that becomes a decimal, or a text."""
_LARGEST_SCALE: Final = 100


def text_of(value: Any) -> str:
    """The text that a simple value was sent as."""
    if not isinstance(value, str):
        raise NotPlainError
    return value


def string(value: Any) -> str:
    """A string, or a whole number; of a fraction beside a schema, Spark tells the text of a double."""
    if isinstance(value, Number) and not value.is_whole:
        raise NotPlainError
    return text_of(value)


def simple(kind: T.DataType) -> PlainReader:
    """A reader of what is cast to a simple type."""
    return lambda value: value_of(text_of(value), kind)


def binary(value: Any) -> bytes:
    """Bytes in base64, as encoders write it: without blanks, with all of its padding."""
    if not isinstance(value, str) or isinstance(value, Number):
        raise NotPlainError
    try:
        found = base64.b64decode(value, validate=True)
    except ValueError as error:
        raise NotPlainError from error
    if base64.b64encode(found).decode() != value:
        raise NotPlainError
    return found


def date(value: Any) -> dt.date:
    """A day as the number of days since 1970."""
    return moment(days=value_of(text_of(value), T.IntegerType())).date()


def date_of_any(value: Any) -> dt.date:
    """A day as a number, or in ISO 8601."""
    if _DAYS.fullmatch(text_of(value)):
        return date(value)
    found: dt.date = value_of(value, T.DateType())
    return found


def iso(kind: T.DataType) -> PlainReader:
    """A reader of a day or a local time in ISO 8601, which may say that it is in UTC."""
    return lambda value: value_of(text_of(value).removesuffix("Z"), kind)


def local_time(units: int) -> PlainReader:
    """A reader of a local time as the number of units since 1970, of which a second has so many."""

    def read(value: Any) -> dt.datetime:
        return moment(microseconds=_integer(value) * 1_000_000 // units)

    return read


def time_of_day(units: int) -> PlainReader:
    """A reader of a time of day as a number of units, as text such as 18:00:22.5."""

    def read(value: Any) -> str:
        number = _integer(value)
        whole, part = divmod(abs(number), units)
        clock = f"{whole // 3600:02d}:{whole // 60 % 60:02d}:{whole % 60:02d}"
        fraction = f".{part:0{len(str(units)) - 1}d}".rstrip("0") if part else ""
        return f"{'-' if number < 0 else ''}{clock}{fraction}"

    return read


def decimal(precision: int, scale: int) -> PlainReader:
    """A reader of a decimal: a JSON number, or the bytes of its digits in base64."""
    kind = T.DecimalType(precision, scale)

    def read(value: Any) -> Decimal:
        if isinstance(value, Number):
            found: Decimal = value_of(value, kind)
            return found
        raw = binary(value)
        number = int.from_bytes(raw, signed=True)
        if not 1 <= len(raw) <= _SMALL_BYTES or abs(number) >= 10**precision:
            raise NotPlainError
        digits = tuple(map(int, str(abs(number))))
        return Decimal((int(number < 0), digits, -scale))

    return read


def digits_of(scale: int) -> PlainReader:
    """A reader of a decimal that no type of Spark holds, as the text of all of its digits."""
    return lambda value: text_of(value) if isinstance(value, Number) else _scaled(binary(value), scale)


def variable_scale(value: Any) -> str:
    """A decimal that comes with its own scale, as text."""
    if not isinstance(value, dict) or value.keys() != {"scale", "value"}:
        raise NotPlainError
    return _scaled(binary(value["value"]), value_of(text_of(value["scale"]), T.IntegerType()))


def _scaled(raw: bytes, scale: int) -> str:
    if not 1 <= len(raw) <= _MOST_BYTES or abs(scale) > _LARGEST_SCALE:
        raise NotPlainError
    number = int.from_bytes(raw, signed=True)
    places = max(scale, 0)
    digits = f"{abs(number)}{'0' * max(-scale, 0)}".rjust(places + 1, "0")
    before = digits[: len(digits) - places].lstrip("0") or "0"
    after = f".{digits[len(digits) - places :]}" if places else ""
    return f"{'-' if number < 0 else ''}{before}{after}"


def _integer(value: Any) -> int:
    found: int = value_of(text_of(value), _LONG)
    return found


def moment(**parts: int) -> dt.datetime:
    """The local time so long after 1970, or before."""
    try:
        return _EPOCH + dt.timedelta(**parts)
    except OverflowError as error:
        raise NotPlainError from error
