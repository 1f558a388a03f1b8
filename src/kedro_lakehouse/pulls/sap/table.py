"""One table of SAP, read whole by a function that gives rows in no order and at most 512 characters of each.

The keys come first, in one narrow call, and are sorted here. Then ranges of them are read, each compared with
its keys, in as many calls as the fields need; where they differ, the range is read again.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.pulls.errors import TerminalFault, UnstableFault
from kedro_lakehouse.pulls.sap.conditions import between, both, lines
from kedro_lakehouse.pulls.sap.connection import BufferExceeded, answered
from kedro_lakehouse.pulls.sap.values import Field, refuse_inexact

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kedro_lakehouse.pulls.sap.connection import CanCall

Key = tuple[str, ...]
Row = dict[str, str]
_SORTED_AS_TEXT: Final = frozenset("CNDT")
_TRIES: Final = 4
"""So often a range is read until its parts have the same keys; then each half of it."""


@dataclass(frozen=True, kw_only=True)
class Range:
    """Values of the field by which rows are divided, from the first to the last; both None: all rows."""

    first: str | None
    last: str | None


@dataclass(frozen=True, kw_only=True)
class SapTable:
    """A table of SAP and what is read of it."""

    connection: CanCall = field(repr=False)
    function: str
    name: str
    keys: Sequence[str]
    wanted: Sequence[str]
    """The fields that are read beside the keys; empty: all."""
    width: int
    rows: int

    @cached_property
    def fields(self) -> dict[str, Field]:
        """The fields that are read, keys first.

        Raises:
            TerminalFault: There is no such table or field.
            InexactFault: An answer does not hold a field whole.
        """
        if not self.wanted:
            try:
                found = self._structure([])
            except BufferExceeded:
                raise TerminalFault(
                    f"{self.name}: all fields together are longer than an answer",
                    "List those that you need in `pull.fields`.",
                ) from None
        else:
            found = self._structure(list(dict.fromkeys([*self.keys, *self.wanted])))
        by_name = {field.name: field for field in found}
        if missing := [key for key in self.keys if key not in by_name]:
            raise TerminalFault(
                f"{self.name}: no data: there is no field {missing[0]}", "Check table and fields: `keys`."
            )
        refuse_inexact(found)
        return {name: by_name[name] for name in [*self.keys, *(n for n in by_name if n not in self.keys)]}

    @cached_property
    def parts(self) -> list[list[str]]:
        """The fields of each call beside the keys, so that each row fits; at least one call.

        Raises:
            TerminalFault: The keys and one field do not fit.
        """
        room = self.width - sum(self.fields[key].length for key in self.keys)
        parts: list[list[str]] = [[]]
        left = room
        for name, one in self.fields.items():
            if name in self.keys:
                continue
            if one.length > room:
                raise TerminalFault(
                    f"{self.name}: the field {name} does not fit into an answer beside the keys",
                    "Leave it out of `pull.fields`.",
                )
            if one.length > left:
                parts.append([])
                left = room
            parts[-1].append(name)
            left -= one.length
        return parts

    def read_keys(self, condition: str) -> list[Key]:
        """The keys of the rows that meet a condition, sorted.

        Raises:
            TerminalFault: Two rows have the same key.
        """
        found = sorted(self._key(row) for row in self._call(self.keys, condition))
        if len(set(found)) != len(found):
            raise TerminalFault(
                f"{self.name}: rows have the same key, so the declared keys are not the primary key",
                "List the table's whole primary key in `keys` or `pull.key_fields`.",
            )
        return found

    def field_for_ranges(self, keys: Sequence[Key], declared: str | None) -> str | None:
        """The key field by which rows are divided: the declared one, or that with the most values.

        None where no key field is a text: all rows are then read at once.
        """
        if declared is not None:
            if declared not in self.keys or self.fields[declared].type not in _SORTED_AS_TEXT:
                raise TerminalFault(
                    f"{self.name}: rows cannot be divided by {declared}",
                    "Name a key field of text or digits.",
                )
            return declared
        fit = [name for name in self.keys if self.fields[name].type in _SORTED_AS_TEXT]
        counts = {name: len(set(map(itemgetter(self.keys.index(name)), keys))) for name in fit}
        return max(fit, key=lambda name: counts[name], default=None)

    def ranges(self, keys: Sequence[Key], by: str | None) -> Iterator[tuple[Range, list[Key]]]:
        """Ranges of about so many rows as one call reads, with their keys; in the order of ``by``."""
        if by is None:
            yield Range(first=None, last=None), list(keys)
            return
        at = self.keys.index(by)
        held: list[Key] = []
        for _, group in groupby(sorted(keys, key=itemgetter(at)), key=itemgetter(at)):
            same = list(group)
            if held and len(held) + len(same) > self.rows:
                yield Range(first=held[0][at], last=held[-1][at]), held
                held = []
            held = held + same
        if held:
            yield Range(first=held[0][at], last=held[-1][at]), held

    def read_range(self, span: Range, by: str | None, keys: Sequence[Key], condition: str) -> list[Row]:
        """The rows of a range, each whole.

        The calls for parts of the fields must give the same keys, those that the call for keys gave last.
        While they do not, the range is read again, and then its halves: few rows change less often.

        Raises:
            UnstableFault: Keys with one value of the field by which rows are divided never stood still.
        """
        within = condition
        if by is not None and span.first is not None and span.last is not None:
            within = both(condition, between(by, span.first, span.last))
        expected = list(keys)
        for attempt in range(_TRIES):
            if attempt:
                expected = self.read_keys(within)
            if (rows := self._whole(sorted(expected), within)) is not None:
                return rows
        halves = self._halves(expected, by)
        if not halves:
            raise UnstableFault(
                f"{self.name}: the rows of a range changed in each of {_TRIES} readings",
                "Pull when the table is quiet, or name in `range_by` a field with more values.",
            )
        return [row for half, held in halves for row in self.read_range(half, by, held, condition)]

    def _halves(self, keys: Sequence[Key], by: str | None) -> list[tuple[Range, list[Key]]]:
        """Two ranges with these keys; none where one value cannot be divided."""
        at = 0 if by is None else self.keys.index(by)
        values = sorted({key[at] for key in keys})
        if by is None or len(values) < 2:  # noqa: PLR2004 - two halves
            return []
        middle = len(values) // 2
        parts = (values[:middle], values[middle:])
        return [
            (Range(first=part[0], last=part[-1]), [key for key in keys if part[0] <= key[at] <= part[-1]])
            for part in parts
        ]

    def _whole(self, keys: Sequence[Key], condition: str) -> list[Row] | None:
        """The rows with exactly these keys, joined from parts; None if a part has others."""
        whole: dict[Key, Row] = {key: {} for key in keys}
        for part in self.parts:
            found = self._call([*self.keys, *part], condition)
            if sorted(map(self._key, found)) != list(keys):
                return None
            for row in found:
                whole[self._key(row)].update(row)
        return list(whole.values())

    def _key(self, row: Row) -> Key:
        return tuple(row[name].rstrip(" ") for name in self.keys)

    def _structure(self, names: Sequence[str]) -> list[Field]:
        """The fields of those names, from answers without rows, in halves where they are too wide."""
        try:
            answer = self._ask(names, "", NO_DATA="X")
        except BufferExceeded:
            if len(names) <= 1:
                raise
            half = len(names) // 2
            return self._structure(names[:half]) + self._structure(names[half:])
        return _fields(answer)

    def _call(self, names: Sequence[str], condition: str) -> list[Row]:
        """The texts of some fields of the rows that meet a condition."""
        answer = self._ask(names, condition)
        fields = _fields(answer)
        return [{field.name: field.cut(line["WA"]) for field in fields} for line in answer["DATA"]]

    def _ask(self, names: Sequence[str], condition: str, **more: str) -> Any:
        # Without a delimiter: any character may be in a text, so rows are cut by offsets and lengths.
        with answered(self.name):
            return self.connection.call(
                self.function,
                QUERY_TABLE=self.name,
                OPTIONS=[{"TEXT": line} for line in lines(condition)],
                FIELDS=[{"FIELDNAME": name} for name in names],
                **more,
            )


def _fields(answer: Any) -> list[Field]:
    return [
        Field(
            name=one["FIELDNAME"].strip(),
            offset=int(one["OFFSET"]),
            length=int(one["LENGTH"]),
            type=one["TYPE"].strip(),
        )
        for one in answer["FIELDS"]
    ]
