"""What is looked for: values as people write them, and how each looks in text, bytes and typed columns."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote as quoted_in_url
from urllib.parse import quote_plus, unquote

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

_IN_WORD: Final = rb"[0-9A-Za-z_\x80-\xff]"
_KEY_BEFORE: Final = re.compile(rb'\\*"([^"\\]{1,200})\\*"\s*:\s*\\*"?$')
_BEFORE: Final = 300
_UUID: Final = re.compile(rb"[0-9a-f]{8}-[0-9a-f]{4}-|-[0-9a-f]{4}-[0-9a-f]{12}|[0-9a-f]{32}")
_AROUND: Final = 36
_OF_DELTA: Final = re.compile(r"col-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
"""What files of a Delta table with column mapping call a column."""
_CUT: Final = 16
"""Iceberg cuts bounds of text to so many characters; Delta's are longer."""
COMMON: Final = 4
"""A value of fewer characters occurs by chance: that it is found, or is not, says little."""


@dataclass(frozen=True)
class Wanted:
    """Values to look for, as text, and the columns that hold them.

    Where a reader knows the column of a number, only numbers of ``columns`` count: 59289 in a column of
    amounts is another thing than customer 59289. Without columns every one counts. Text is searched in every
    column, because a raw record or a message may hold the value anywhere in it.
    """

    values: tuple[str, ...]
    columns: frozenset[str] = frozenset()

    @classmethod
    def of(cls, values: Sequence[str], columns: Sequence[str] = ()) -> Wanted:
        """Values without blanks around them, each once; names of columns in any case."""
        return cls(
            tuple(dict.fromkeys(v.strip() for v in values if v.strip())),
            frozenset(c.lower() for c in columns),
        )

    @cached_property
    def forms(self) -> tuple[bytes, ...]:
        """Each value as bytes, in the ways in which files write text."""
        found: dict[bytes, None] = {}
        for value in self.values:
            escaped = json.dumps(value)[1:-1], json.dumps(value, ensure_ascii=False)[1:-1]
            for text in (value, *escaped, value.replace('"', '""'), quoted_in_url(value), quote_plus(value)):
                found[text.encode()] = None
            for encoding in ("latin-1", "utf-16-le", "utf-16-be"):
                try:
                    found[value.encode(encoding)] = None
                except UnicodeEncodeError:
                    continue
        return tuple(found)

    @cached_property
    def longest(self) -> int:
        """The bytes of the longest form."""
        return max(map(len, self.forms), default=0)

    @cached_property
    def _any_form(self) -> re.Pattern[bytes]:
        return re.compile(_any_of(self.forms))

    @cached_property
    def _as_word(self) -> re.Pattern[bytes]:
        return re.compile(b"(?<!" + _IN_WORD + b")" + _any_of(self.forms) + b"(?!" + _IN_WORD + b")")

    def in_text(self, text: bytes) -> Iterator[int]:
        """Where a text holds a value as a word of its own, and not as that of another key in JSON."""
        for match in self._as_word.finditer(text):
            if not self._is_of_other_key(text, match.start()):
                yield match.start()

    def _is_of_other_key(self, text: bytes, at: int) -> bool:
        if not self.columns:
            return False
        key = _KEY_BEFORE.search(text[max(0, at - _BEFORE) : at])
        if key is None:
            return False
        is_number = text[at - 1 : at] != b'"' and text[at : at + 1] in b"-0123456789"
        # Text under another key may still be the person's; a number under another key is another number.
        return is_number and not self.counts_for(key[1].decode(errors="replace"))

    def in_bytes(self, data: bytes) -> Iterator[int]:
        """Where bytes hold a value, whatever is beside it; those in the middle of a UUID are none."""
        for match in self._any_form.finditer(data):
            near = data[max(0, match.start() - _AROUND) : match.end() + _AROUND]
            if not any(
                found.start() <= match.start() - max(0, match.start() - _AROUND) < found.end()
                for found in _UUID.finditer(near)
            ):
                yield match.start()

    def holds(self, text: str) -> bool:
        """Whether a text holds a value as a word of its own."""
        return next(self.in_text(text.encode()), None) is not None

    def holds_bytes(self, data: bytes) -> bool:
        """Whether bytes hold a value."""
        return next(self.in_bytes(data), None) is not None

    def in_path(self, path: str) -> bool:
        """Whether a partition in a path, such as ``customer=59289``, has one of the values."""
        parts = [part.partition("=") for part in path.split("/") if "=" in part]
        return any(unquote(value) in self.values for _, _, value in parts)

    def counts_for(self, column: str) -> bool:
        """Whether a number counts in a column of that name; Delta's own names of columns say nothing."""
        return not self.columns or column.lower() in self.columns or _OF_DELTA.fullmatch(column) is not None

    def equals(self, value: Any) -> bool:
        """Whether a typed value, such as one of Avro's or of JSON's, is one of the values."""
        if value is None or isinstance(value, bool):
            return False
        if isinstance(value, int | float | Decimal):
            return any(n == value for n in self._numbers)
        if isinstance(value, datetime):
            return value.isoformat(sep=" ") in self.values or value.isoformat() in self.values
        if isinstance(value, date):
            return value.isoformat() in self.values
        return str(value) in self.values

    def is_written(self, cell: str) -> bool:
        """Whether the text of a cell is one of the values, as text or as a number."""
        text = cell.strip()
        if text in self.values:
            return True
        try:
            number = Decimal(text)
        except InvalidOperation:
            return False
        return number.is_finite() and self.equals(number)

    def is_bound(self, bound: Any, *, of_text: bool) -> bool:
        """Whether a file's bound may be one of the values: text may be cut, its last character raised."""
        if not of_text:
            return self.equals(bound)
        text = str(bound)
        return any(
            text == value
            or (len(value) > _CUT and len(text) >= _CUT and value[: _CUT - 1] == text[: _CUT - 1])
            for value in self.values
        )

    @cached_property
    def _numbers(self) -> tuple[Decimal, ...]:
        found = []
        for value in self.values:
            try:
                number = Decimal(value)
            except InvalidOperation:
                continue
            if number.is_finite():
                found.append(number)
        return tuple(found)

    def of_type(self, kind: pa.DataType) -> Sequence[Any]:
        """The values that a column of a type can hold, as Python's values."""
        import pyarrow as pa

        if pa.types.is_integer(kind):
            return [int(n) for n in self._numbers if n == n.to_integral_value() and _fits(kind, int(n))]
        if pa.types.is_floating(kind):
            return [float(n) for n in self._numbers]
        if pa.types.is_decimal(kind):
            return [n for n in self._numbers if _is_decimal_of(kind, n)]
        if pa.types.is_date(kind):
            return [day for v in self.values if (day := _date(v)) is not None]
        if pa.types.is_timestamp(kind):
            return [
                moment for v in self.values if (moment := _moment(v, zoned=kind.tz is not None)) is not None
            ]
        return []

    @property
    def common(self) -> tuple[str, ...]:
        """The values that are too short to say much."""
        return tuple(v for v in self.values if len(v) < COMMON)


def _any_of(forms: Sequence[bytes]) -> bytes:
    """A pattern of any of these, a longer one before a shorter.

    What begins alike is looked at once, so ten thousand forms take little longer than one.
    """
    groups: dict[bytes, list[bytes]] = {}
    for form in forms:
        if form:
            groups.setdefault(form[:1], []).append(form)
    parts = []
    for group in groups.values():
        least, most = min(group), max(group)
        shared = next((i for i in range(len(least)) if least[i] != most[i]), len(least))
        parts.append(re.escape(least[:shared]) + _any_of([form[shared:] for form in group]))
    if not parts:
        return b""
    return b"(?:" + b"|".join(parts) + (b")?" if b"" in forms else b")")


def _fits(kind: pa.DataType, number: int) -> bool:
    import pyarrow as pa

    signed = pa.types.is_signed_integer(kind)
    least, most = (
        (-(2 ** (kind.bit_width - 1)), 2 ** (kind.bit_width - 1)) if signed else (0, 2**kind.bit_width)
    )
    return bool(least <= number < most)


def _is_decimal_of(kind: pa.DataType, number: Decimal) -> bool:
    shifted = number.scaleb(kind.scale)
    return bool(shifted == shifted.to_integral_value() and abs(shifted) < Decimal(10) ** kind.precision)


def _date(text: str) -> date | None:
    try:
        return date.fromisoformat(text)
    except ValueError:
        return None


def _moment(text: str, *, zoned: bool) -> datetime | None:
    from datetime import UTC

    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    if zoned:
        return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return (
        moment.replace(tzinfo=None) if moment.tzinfo is None else moment.astimezone(UTC).replace(tzinfo=None)
    )
