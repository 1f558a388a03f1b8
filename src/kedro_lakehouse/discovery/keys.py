"""Which columns could be a table's key: what is unique in rows, how likely that is on purpose, and why."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import combinations
from math import prod
from typing import TYPE_CHECKING, Final, Literal

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at

from kedro_lakehouse.column_search.words import name_words

if TYPE_CHECKING:
    from collections.abc import Sequence

Role = Literal["id", "code", "time", "label", "entity", "measure"]
_DIMENSIONS: Final[frozenset[Role]] = frozenset({"id", "code", "time", "label", "entity"})
_MOST_KEYS: Final = 5
_WIDEST: Final = 3
_LONGEST_PREFIX: Final = 6
_COMBINED: Final = 10
"""So many of the likeliest columns are combined: pairs and triples of them are tried."""
_FEW: Final = 5_000
"""Combinations that repeat among the first rows are not tried on all."""
_LONGEST: Final = 64
_FILLED: Final = 0.25
"""Columns identify rows on purpose if rows have so much of all combinations of their values."""
_REPEATED: Final = 0.5
_PLANNED: Final = 12
_GIVEN: Final = 4
"""Numbers that were given to rows one after the other span at most so many times their count."""
_LEAST_ROWS: Final = 3
_STRONG: Final = frozenset({"id", "key", "uuid", "guid", "pk", "identifier"})
_WEAK: Final = frozenset(
    {"code", "number", "nr", "no", "isbn", "sku", "symbol", "ticker", "iata", "icao", "iso", "fips",
     "abbreviation", "serial", "vin", "ean"}
)  # fmt: skip
_TIMES: Final = frozenset(
    {"year", "month", "day", "date", "week", "quarter", "hour", "minute", "time", "timestamp", "datetime",
     "period", "season", "decade"}
)  # fmt: skip
_ENTITIES: Final = frozenset(
    {"subject", "respondent", "individual", "person", "patient", "participant", "case", "firm", "company",
     "household", "state", "country", "county", "city", "region", "station", "site", "school", "team",
     "player", "student", "plant", "store", "sensor", "device"}
)  # fmt: skip
_SHARED: Final = frozenset(
    {"first", "last", "middle", "given", "family", "address", "street", "comment", "note"}
)
"""Words of texts that two rows may well share, such as first names: where none does, it is chance."""
_MEASURES: Final = frozenset(
    {"latitude", "longitude", "amount", "price", "total", "value", "description", "count", "rate", "percent"}
)
_PLACES: Final = re.compile(
    r"(?:row|rows|row_?(?:name|names|number|num|nr)_*|index|idx|x|obs|observation|unnamed_0)"
)


@dataclass(frozen=True)
class Keys:
    """What was found of keys in some rows.

    Attributes:
        candidates: Sets of columns that are unique and without null, the likeliest first.
        chosen: The one that is taken for the key; empty if none of them looks like one on purpose.
        why: What speaks for each candidate, in the same order.
    """

    candidates: tuple[tuple[str, ...], ...] = ()
    chosen: tuple[str, ...] = ()
    why: tuple[str, ...] = ()


def find_keys(rows: pa.Table, *, table: str, partitions: frozenset[str] = frozenset()) -> Keys:
    """Look for the key of a table in some of its rows.

    Numbers with a fraction, truth values, nested values and long texts are no keys, and neither is a number
    that only counts the lines of its file. Two or three columns are tried together only where none alone
    looks like a key.

    Example:
        >>> t = pa.table({"name": ["a", "b"], "item_id": [1, 2], "price": [0.5, 0.75]})
        >>> find_keys(t, table="item").chosen
        ('item_id',)
    """
    if rows.num_rows < 2:  # noqa: PLR2004 - of one row everything is unique
        return Keys()
    return _Search(_countable(rows), table, partitions).found()


def _countable(rows: pa.Table) -> pa.Table:
    """The same rows with texts of a type whose values Arrow counts."""
    for number, name in enumerate(rows.column_names):
        kind = rows[name].type
        counted = (
            pa.string() if at.is_string_view(kind) else kind.value_type if at.is_dictionary(kind) else kind
        )
        if counted != kind:
            rows = rows.set_column(number, name, rows[name].cast(counted))
    return rows


def key_candidates(
    rows: pa.Table, *, table: str, partitions: frozenset[str] = frozenset()
) -> tuple[tuple[str, ...], ...]:
    """Sets of columns that are unique and without null in these rows; the likeliest key first.

    Example:
        >>> t = pa.table({"name": ["a", "b"], "item_id": [1, 2], "price": [0.5, 0.75]})
        >>> key_candidates(t, table="item")
        (('item_id',), ('name',))
    """
    return find_keys(rows, table=table, partitions=partitions).candidates


class _Search:
    """One search for keys: what each column is like, and what is unique."""

    def __init__(self, rows: pa.Table, table: str, partitions: frozenset[str]) -> None:
        self._rows, self._count = rows, rows.num_rows
        self._subject = _singular(name_words(table.rpartition(".")[2]))
        self._order = {name: number for number, name in enumerate(rows.column_names)}
        able = [n for n in rows.column_names if _may_be_key(n, rows[n]) and not _counts_lines(n, rows[n])]
        self._score = {name: self._likeliness(name) for name in able}
        self._role = {name: self._role_of(name) for name in able}
        self._distinct = {name: int(pc.count_distinct(rows[name]).as_py()) for name in able}
        self._able = sorted(able, key=lambda name: (-self._score[name], self._order[name]))
        self._partitions = partitions

    def found(self) -> Keys:
        """The candidates, the likeliest first, and the one that is chosen."""
        single = [
            n for n in self._able if n not in self._partitions and self._distinct[n] == self._count
        ]  # fmt: skip
        single.sort(key=lambda n: (not self._is_trusted(n), -self._score[n], self._order[n]))
        alone = [(name,) for name in single[:_MOST_KEYS]]
        if any(self._is_trusted(n) or _is_text(self._rows[n].type) for n in single):
            return self._keys(alone)
        # A number that happens to be unique, such as an amount, is no better than several columns.
        return self._keys([*self._together(single), *alone][:_MOST_KEYS])

    def _keys(self, candidates: Sequence[tuple[str, ...]]) -> Keys:
        chosen = next((names for names in candidates if self._is_chosen(names)), ())
        ordered = sorted(candidates, key=lambda names: names != chosen)
        return Keys(tuple(ordered), chosen, tuple(self._reasons(names) for names in ordered))

    def _together(self, single: Sequence[str]) -> list[tuple[str, ...]]:
        """Two or three columns that are unique together, or the first ones of the table."""
        tried = [n for n in self._able if n not in single and self._distinct[n] > 1]
        tried.sort(key=lambda n: (-self._grain(n), self._order[n]))
        tried = sorted(tried[:_COMBINED], key=lambda name: self._order[name])
        for width in range(2, _WIDEST + 1):
            found = [names for names in combinations(tried, width) if self._are_unique(names)]
            if found:
                found.sort(
                    key=lambda names: (
                        not self._is_chosen(names),
                        -sum(self._grain(n) for n in names),
                        sum(self._order[n] for n in names),
                    )
                )
                if self._is_chosen(found[0]) or width == _WIDEST:
                    return found[:_MOST_KEYS]
                rest = [names for names in self._wider(tried, width) if self._is_chosen(names)]
                return [*rest[:1], *found][:_MOST_KEYS]
        return self._first_columns()

    def _wider(self, tried: Sequence[str], width: int) -> list[tuple[str, ...]]:
        """Wider keys of dimensions alone, where narrow ones hold a measure."""
        dimensions = [n for n in tried if self._role[n] in _DIMENSIONS]
        more = range(width + 1, _WIDEST + 1)
        found = [names for w in more for names in combinations(dimensions, w) if self._are_unique(names)]
        return sorted(found, key=lambda names: (len(names), sum(self._order[n] for n in names)))

    def _first_columns(self) -> list[tuple[str, ...]]:
        """The first columns of the table, as many as are unique together."""
        first = [n for n in self._rows.column_names if n in self._role][:_LONGEST_PREFIX]
        for width in range(_WIDEST + 1, len(first) + 1):
            if self._are_unique(first[:width]):
                return [tuple(first[:width])]
        return []

    def _is_trusted(self, name: str) -> bool:
        """Whether a unique column looks like a key on purpose."""
        role, first = self._role[name], self._order[name] == 0
        if role == "id":
            return True
        if self._count < _LEAST_ROWS:
            return role in ("code", "label", "entity") or (role == "time" and first)
        if role == "time":
            return first or not any(r == "time" for n, r in self._role.items() if n != name)
        if role == "label" and frozenset(name_words(name)) & _SHARED:
            return False
        return role in ("code", "label", "entity")

    def _is_chosen(self, names: Sequence[str]) -> bool:
        """Whether unique columns look like the key of the table."""
        if len(names) == 1:
            return self._is_trusted(names[0])
        roles = [self._role[n] for n in names]
        filled = self._count / prod(self._distinct[n] for n in names)
        if filled == 1 and roles.count("measure") < len(names) and self._count >= _PLANNED:
            return True  # every combination of their values is there once, as in a planned experiment
        if not _DIMENSIONS.issuperset(roles):
            return False
        if set(roles) == {"time"}:
            return filled >= _REPEATED or self._is_prefix(names)
        return "id" in roles or filled >= _FILLED or self._is_prefix(names)

    def _is_prefix(self, names: Sequence[str]) -> bool:
        counted = [n for n in self._rows.column_names if not _counts_lines(n, self._rows[n])]
        return set(counted[: len(names)]) == set(names)

    def _reasons(self, names: Sequence[str]) -> str:
        """What speaks for columns as a key, in words."""
        reasons = [f"unique and without null in {self._count:,} rows"]
        if len(names) == 1:
            reasons += self._of_one(names[0])
        else:
            parts = " x ".join(f"{self._distinct[n]:,}" for n in names)
            reasons.append(f"{parts} distinct values")
            if self._is_prefix(names):
                reasons.append("the first columns")
        return ", ".join(reasons)

    def _of_one(self, name: str) -> list[str]:
        words = {
            "id": "named like an id", "code": "named like a code", "time": "a time", "label": "a label",
            "entity": "names what a row is about", "measure": "rather a measure",
        }  # fmt: skip
        return [words[self._role[name]], *(["the first column"] if self._order[name] == 0 else [])]

    def _role_of(self, name: str) -> Role:
        """What a column is there for, by its name, its type and its values."""
        words, kind = name_words(name), self._rows[name].type
        text = _is_text(kind)
        if self._is_measure(name):
            return "measure"
        if frozenset(words) & _STRONG or self._names_subject(name):
            return "id"
        if at.is_temporal(kind) or _is_named_time(name):
            return "time"
        if frozenset(words) & _WEAK and (text or words[-1] in _WEAK) and not self._answers(words):
            return "code"
        number: Role = "entity" if {*words} & _ENTITIES or self._numbers_groups(name) else "measure"
        return "label" if text else number

    def _names_subject(self, name: str) -> bool:
        """Whether a column is called like the table; a number is then one that was given, not measured."""
        own, column = _singular(name_words(name)), self._rows[name]
        if not own or not own <= self._subject:
            return False
        if not at.is_integer(column.type):
            return True
        ends = pc.min_max(column).as_py()
        return bool(ends["max"] - ends["min"] <= _GIVEN * self._count)

    def _answers(self, words: Sequence[str]) -> bool:
        """Whether `no` in a name is an answer and not a number: another column has `yes`."""
        others = (name_words(name) for name in self._rows.column_names)
        return "no" in words and any("yes" in other for other in others)

    def _is_measure(self, name: str) -> bool:
        kind = self._rows[name].type
        return bool(frozenset(name_words(name)) & _MEASURES or (at.is_decimal(kind) and kind.scale))

    def _numbers_groups(self, name: str) -> bool:
        """Whether the first column counts groups of rows, one after the other, as panels do."""
        column = self._rows[name]
        if self._order[name] != 0 or not at.is_integer(column.type):
            return False
        values = column.combine_chunks()
        distinct = len(values.unique())
        if distinct > _REPEATED * self._count or distinct < 2:  # noqa: PLR2004 - one group is none
            return False
        return bool(pc.all(pc.greater_equal(values[1:], values[:-1])).as_py())

    def _likeliness(self, name: str) -> int:
        """How much the name and the type of a unique column speak for a key."""
        words, kind = name_words(name), self._rows[name].type
        score = 0
        if words and words[-1] in _STRONG:
            own = _singular(words[:-1])
            score += 6 if not own or own <= self._subject else 4
        elif frozenset(words) & _STRONG:
            score += 3
        elif frozenset(words) & _WEAK and not self._answers(words):
            score += 2
        if self._names_subject(name):
            score += 5
        if self._is_measure(name):
            score -= 3
        if at.is_temporal(kind) or at.is_floating(kind):
            score -= 1
        return score

    def _grain(self, name: str) -> int:
        """How much a column speaks for being one of several that identify a row, as texts and dates do."""
        kind, role = self._rows[name].type, self._role[name]
        named = 5 if at.is_temporal(kind) else 3 if _is_text(kind) else 2 if role == "time" else 0
        return self._score[name] + named + (1 if role == "entity" else 0)

    def _are_unique(self, names: Sequence[str]) -> bool:
        if prod(self._distinct[n] for n in names) < self._count:
            return False
        return are_unique(self._rows, names)


def are_unique(rows: pa.Table, names: Sequence[str]) -> bool:
    """Whether no two rows have the same values in these columns."""
    return all(
        part.group_by(list(names)).aggregate([]).num_rows == part.num_rows
        for part in (rows.select(names).slice(0, _FEW), rows.select(names))
    )


def _singular(words: Sequence[str]) -> frozenset[str]:
    return frozenset(word.removesuffix("s") for word in words)


def _counts_lines(name: str, column: pa.ChunkedArray) -> bool:
    """Whether a column has nothing but the numbers of the lines, and is named so."""
    plain = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    if not _PLACES.fullmatch(plain) or not at.is_integer(column.type) or column.null_count:
        return False
    values = column.combine_chunks()
    if not len(values) or values[0].as_py() not in (0, 1):
        return False
    return bool(pc.all(pc.equal(pc.subtract(values[1:], values[:-1]), 1)).as_py())


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        at.is_string(kind) or at.is_large_string(kind) or at.is_string_view(kind) or at.is_dictionary(kind)
    )


def _is_named_time(name: str) -> bool:
    words = name_words(name)
    return bool(words) and (words[-1] in _TIMES or words[0] in _TIMES)


def _grows(column: pa.ChunkedArray) -> bool:
    values = column.combine_chunks()
    return len(values) > 1 and bool(pc.all(pc.greater(values[1:], values[:-1])).as_py())


def _may_be_key(name: str, column: pa.ChunkedArray) -> bool:
    kind = column.type.value_type if at.is_dictionary(column.type) else column.type
    unfit = (at.is_nested, at.is_boolean, at.is_null, at.is_binary, at.is_large_binary)
    if column.null_count or any(test(kind) for test in unfit):
        return False
    if at.is_floating(kind):  # as pandas writes whole numbers once one of them was missing
        whole = bool(pc.all(pc.equal(column, pc.floor(column))).as_py())
        return whole or (_is_named_time(name) and _grows(column))
    if at.is_string(kind) or at.is_large_string(kind) or at.is_string_view(kind):
        texts = column.cast(pa.string())
        longest = pc.max(pc.utf8_length(texts)).as_py() or 0
        return bool(longest <= _LONGEST and not pc.any(pc.equal(pc.utf8_length(texts), 0)).as_py())
    return True
