"""Values of SAP from the texts of RFC_READ_TABLE: signs that trail, dates of zeros, numbers that overflow."""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.pulls.errors import InexactFault

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

_TEXTS: Final = frozenset("CN")
_INTEGERS: Final = frozenset("Ibs8")
_NO_DATE: Final = frozenset({"", "00000000"})
_NUMBER: Final = re.compile(r"(\d*)(?:\.(\d+))?")
_DECIMAL_128: Final = 38


@dataclass(frozen=True, kw_only=True)
class Field:
    """A field of an answer: where it stands in a row, and its type in ABAP, a letter."""

    name: str
    offset: int
    length: int
    type: str

    def cut(self, row: str) -> str:
        """The field's text in a row, from whose end the SDK may have cut blanks."""
        return row[self.offset : self.offset + self.length]


def refuse_inexact(fields: Sequence[Field]) -> None:
    """Refuse fields whose values an answer does not hold whole.

    Raises:
        InexactFault: There is one.
    """
    for field in fields:
        if field.type == "X":
            raise InexactFault(
                f"the field {field.name} holds bytes, of which an answer may hold half",
                "Leave it out of `pull.fields`, or read a view that has it as text.",
            )
        if field.type not in _TEXTS | _INTEGERS | set("DTPF"):
            raise InexactFault(
                f"the field {field.name} has the type {field.type}, which an answer does not hold whole",
                "Leave it out of `pull.fields`.",
            )


def column(field: Field, texts: Sequence[str], scale: int | None) -> pa.Array:
    """The values of a field as an Arrow array.

    Types: C, N and T are text, with leading zeros; D is a date; P a decimal; integers and F are numbers.

    Args:
        field: The field.
        texts: Its texts.
        scale: The decimals of a packed number, from ``scale_of``.

    Raises:
        InexactFault: A number overflows its field, or a text is no value of the type.
    """
    import pyarrow as pa

    if field.type in _TEXTS or field.type == "T":
        return pa.array([text.rstrip(" ") for text in texts], pa.string())
    if field.type == "D":
        return pa.array([_date(field, text) for text in texts], pa.date32())
    if field.type == "F":
        return pa.array([float(_signed(field, text, r"[\d.eE+-]+")) for text in texts], pa.float64())
    numbers = [_signed(field, text, r"\d*\.?\d*") for text in texts]
    if field.type in _INTEGERS:
        return pa.array([int(number or 0) for number in numbers], pa.int64())
    return _decimals(field, numbers, scale or 0)


def scale_of(field: Field, texts: Sequence[str]) -> int | None:
    """The decimals of a packed number, which are written all in each value; None without a value."""
    scales = {_scale(text) for text in texts if text.strip(" *")}
    if len(scales) > 1:
        raise InexactFault(f"the field {field.name} has values with {sorted(scales)} decimals")
    return scales.pop() if scales else None


def _scale(text: str) -> int:
    found = _NUMBER.fullmatch(text.strip(" +-"))
    return len(found[2] or "") if found else 0


def _decimals(field: Field, numbers: Sequence[str], scale: int) -> Any:
    import pyarrow as pa

    precision = min(_DECIMAL_128, max(field.length, scale + 1))
    try:
        return pa.array([Decimal(number or 0) for number in numbers], pa.decimal128(precision, scale))
    except pa.ArrowInvalid:
        raise InexactFault(f"the field {field.name} has a value with more than {scale} decimals") from None


def _signed(field: Field, text: str, pattern: str) -> str:
    """A number whose sign trails, with the sign first."""
    number = text.strip()
    if "*" in number:
        raise InexactFault(
            f"a value of the field {field.name} overflows its length and is lost",
            "Leave it out of `pull.fields`, or read a view with a longer field.",
        )
    sign = "-" if number.endswith("-") else ""
    digits = number.rstrip("+-").rstrip()
    if re.fullmatch(rf"-?{pattern}|", digits) is None:
        raise InexactFault(f"a value of the field {field.name} is no number")
    return f"{sign}{digits}" if digits else "0"


def _date(field: Field, text: str) -> dt.date | None:
    if text.strip() in _NO_DATE:
        return None
    try:
        return dt.datetime.strptime(text, "%Y%m%d").date()  # noqa: DTZ007 - a date has no zone
    except ValueError:
        raise InexactFault(
            f"a value of the field {field.name} is no date", "Read a view that has it as text."
        ) from None
