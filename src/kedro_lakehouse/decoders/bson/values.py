"""Values of BSON in the types of columns: exactly, or not at all."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as T

from kedro_lakehouse.decoders.bson.documents import extended_json, relaxed_json
from kedro_lakehouse.decoders.bson.kinds import LARGEST_EXACT, OTHER, kind_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kedro_lakehouse.decoders.bson.types import Field

    Reader = Callable[[Any], Any]

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND: Final = dt.timedelta(milliseconds=1)
_FIRST: Final = (dt.datetime(1, 1, 1, tzinfo=dt.UTC) - _EPOCH) // _MILLISECOND
_LAST: Final = (dt.datetime.max.replace(tzinfo=dt.UTC) - _EPOCH) // _MILLISECOND
_BITS: Final = {T.IntegerType: 31, T.LongType: 63}


class MisfitError(ValueError):
    """A value that the type of its column does not hold."""


def value_at(document: dict[str, Any], path: Sequence[str]) -> Any:
    """The value at a path of fields; None where a part of the path is missing or null.

    Raises:
        MisfitError: A part of the path is a value without fields.
    """
    found: Any = document
    for name in path:
        if found is None:
            return None
        if not isinstance(found, dict):
            raise MisfitError
        found = found.get(name)
    return found


def reader_of(field: Field) -> Reader:
    """A function that gives a decoded value in a column's type, or raises ``MisfitError``."""
    return _reader(field.type, any_text=field.any_text)


def _reader(kind: T.DataType, *, any_text: bool) -> Reader:  # noqa: PLR0911 - one a kind of type
    inner = partial(_reader, any_text=any_text)
    if isinstance(kind, T.StructType):
        return partial(_struct, [(f.name, inner(f.dataType)) for f in kind.fields])
    if isinstance(kind, T.ArrayType):
        return partial(_array, inner(kind.elementType))
    if isinstance(kind, T.MapType):
        return partial(_map, inner(kind.valueType))
    if isinstance(kind, T.IntegerType | T.LongType):
        return partial(_whole, 2 ** _BITS[type(kind)])
    if isinstance(kind, T.DecimalType):
        return partial(_decimal, kind.precision, Decimal(1).scaleb(-kind.scale))
    if isinstance(kind, T.StringType):
        return _any_text if any_text else _text
    if isinstance(kind, T.FloatType | T.DoubleType):
        return _double
    if isinstance(kind, T.TimestampType | T.TimestampNTZType):
        return _microseconds
    if isinstance(kind, T.BooleanType):
        return _boolean
    return _binary if isinstance(kind, T.BinaryType) else _refused


def _struct(fields: Sequence[tuple[str, Reader]], value: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise MisfitError
    return {name: read(value.get(name)) for name, read in fields}


def _array(read: Reader, value: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, list):
        raise MisfitError
    return [read(one) for one in value]


def _map(read: Reader, value: Any) -> Any:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise MisfitError
    return [(key, read(one)) for key, one in value.items()]


def _whole(limit: int, value: Any) -> int | None:
    """A whole number; a double without a fraction is one, as shells of MongoDB write 5 as 5.0."""
    if value is None:
        return None
    kind = kind_of(value)
    if kind == "double" and value.is_integer() and abs(value) <= LARGEST_EXACT:
        value = int(value)
    elif kind not in ("int", "long"):
        raise MisfitError
    if not -limit <= value < limit:
        raise MisfitError
    return int(value)


def _double(value: Any) -> float | None:
    if value is None or type(value) is float:
        return value
    if kind_of(value) in ("int", "long") and abs(value) <= LARGEST_EXACT:
        return float(value)
    raise MisfitError


def _decimal(precision: int, step: Decimal, value: Any) -> Decimal | None:
    """A decimal; a double counts as the shortest text that means it, as 0.1."""
    if value is None:
        return None
    kind = kind_of(value)
    if kind == "double":
        number = Decimal(repr(value))
    elif kind in ("int", "long"):
        number = Decimal(int(value))
    elif kind == "decimal":
        number = value.to_decimal()
    else:
        raise MisfitError
    if not number.is_finite() or number.adjusted() - step.adjusted() >= precision:
        raise MisfitError
    exact = number.quantize(step, context=_context())
    if exact != number:
        raise MisfitError
    return exact


@cache
def _context() -> Any:
    import decimal

    return decimal.Context(prec=76)


def _text(value: Any) -> str | None:
    if value is None or type(value) is str:
        return value
    kind = kind_of(value)
    if kind == "objectid":
        return str(value)
    if kind == "uuid":
        return str(value.as_uuid())
    if kind == OTHER:
        return extended_json(value)
    raise MisfitError


def _any_text(value: Any) -> str | None:
    """Text of any value: its own, else JSON; of a decimal its digits, of a date ISO 8601."""
    kind = kind_of(value)
    if kind in ("string", "null", "objectid", "uuid", OTHER):
        return _text(value)
    if kind == "decimal":
        return str(value)
    if kind == "date" and _FIRST <= int(value) <= _LAST:
        return (_EPOCH + int(value) * _MILLISECOND).isoformat()
    return relaxed_json(value)


def _microseconds(value: Any) -> int | None:
    if value is None:
        return None
    if kind_of(value) != "date" or not _FIRST <= int(value) <= _LAST:
        raise MisfitError
    return int(value) * 1000


def _boolean(value: Any) -> bool | None:
    if value is None or type(value) is bool:
        return value
    raise MisfitError


def _binary(value: Any) -> bytes | None:
    if value is None:
        return None
    if not isinstance(value, bytes):
        raise MisfitError
    return bytes(value)


def _refused(value: Any) -> None:
    if value is not None:
        raise MisfitError
