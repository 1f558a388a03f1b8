"""What rows tell: which columns could be a table's key, and which hold data about persons."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as at

from kedro_lakehouse.column_search.personal import personal_evidence
from kedro_lakehouse.column_search.values import as_texts, kind_of
from kedro_lakehouse.column_search.words import name_words

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.discovery.found import FoundColumn

_MOST_KEYS: Final = 5
_WIDEST: Final = 3
_COMBINED: Final = 10
"""So many of the likeliest columns are combined: pairs and triples of them are tried."""
_FEW: Final = 5_000
"""Combinations that repeat among the first rows are not tried on all."""
_LONGEST: Final = 64
_VALUES: Final = 1_000
_STRONG: Final = frozenset({"id", "key", "uuid", "guid", "pk", "identifier"})
_WEAK: Final = frozenset(
    {"code", "number", "nr", "no", "isbn", "sku", "symbol", "ticker", "iata", "abbreviation"}
)
_MEASURES: Final = frozenset({"latitude", "longitude", "amount", "price", "total", "value", "description"})


@dataclass(frozen=True)
class Evidence:
    """What was found in so many rows."""

    rows: int
    keys: tuple[tuple[str, ...], ...]
    columns: tuple[FoundColumn, ...]


def evidence_in(rows: pa.Table, columns: Sequence[FoundColumn], *, table: str) -> Evidence:
    """Look for keys and personal columns.

    Args:
        rows: Rows of the dataset, of whichever of its columns could be read.
        columns: All its columns.
        table: The table's name, which may tell of persons.
    """
    found = tuple(replace(c, personal=_personal(rows, c.name, table)) for c in columns)
    partitions = frozenset(c.name for c in columns if c.partition)
    return Evidence(rows.num_rows, key_candidates(rows, table=table, partitions=partitions), found)


def key_candidates(
    rows: pa.Table, *, table: str, partitions: frozenset[str] = frozenset()
) -> tuple[tuple[str, ...], ...]:
    """Sets of columns that are unique and without null in these rows; the likeliest key first.

    Numbers with a fraction, truth values, nested values and long texts are no keys. Two or three columns
    are tried together only where none is unique alone.

    Example:
        >>> t = pa.table({"name": ["a", "b"], "item_id": [1, 2], "price": [0.5, 0.75]})
        >>> key_candidates(t, table="item")
        (('item_id',), ('name',))
    """
    if rows.num_rows < 2:  # noqa: PLR2004 - of one row everything is unique
        return ()
    order = {name: number for number, name in enumerate(rows.column_names)}
    likely = {n: _likeliness(n, table, rows[n].type) for n in rows.column_names if _may_be_key(rows[n])}
    able = sorted(likely, key=lambda name: (-likely[name], order[name]))
    single = [n for n in able if n not in partitions and pc.count_distinct(rows[n]).as_py() == rows.num_rows]
    alone = tuple((name,) for name in single[:_MOST_KEYS])
    if any(likely[n] > 0 or order[n] == 0 or _is_text(rows[n].type) for n in single):
        return tuple(sorted(alone, key=lambda names: (-likely[names[0]], order[names[0]])))
    # A number that happens to be unique, such as an amount, is no better than columns that are so together.
    tried = sorted(
        (n for n in able if n not in single), key=lambda n: (-_grain(likely[n], rows[n].type), order[n])
    )
    tried = sorted(tried[:_COMBINED], key=lambda name: order[name])
    for width in range(2, _WIDEST + 1):
        found = [names for names in combinations(tried, width) if _are_unique(rows, names)]
        if found:
            found.sort(
                key=lambda names: (
                    -sum(_grain(likely[n], rows[n].type) for n in names),
                    sum(order[n] for n in names),
                )
            )
            return (*found[:_MOST_KEYS], *alone)[:_MOST_KEYS]
    return alone


def _grain(likeliness: int, kind: pa.DataType) -> int:
    """How much a column speaks for being one of several that identify a row: texts and dates often are."""
    return likeliness + (3 if at.is_date(kind) else 2 if _is_text(kind) or at.is_temporal(kind) else 0)


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        at.is_string(kind) or at.is_large_string(kind) or at.is_string_view(kind) or at.is_dictionary(kind)
    )


def _may_be_key(column: pa.ChunkedArray) -> bool:
    kind = column.type.value_type if at.is_dictionary(column.type) else column.type
    unfit = (at.is_nested, at.is_boolean, at.is_null, at.is_binary, at.is_large_binary)
    if column.null_count or any(test(kind) for test in unfit):
        return False
    if at.is_floating(kind):  # as pandas writes whole numbers once one of them was missing
        return bool(pc.all(pc.equal(column, pc.floor(column))).as_py())
    if at.is_string(kind) or at.is_large_string(kind) or at.is_string_view(kind):
        texts = column.cast(pa.string())
        longest = pc.max(pc.utf8_length(texts)).as_py() or 0
        return bool(longest <= _LONGEST and not pc.any(pc.equal(pc.utf8_length(texts), 0)).as_py())
    return True


def _likeliness(name: str, table: str, kind: pa.DataType) -> int:
    """How much the name and the type of a unique column speak for a key."""
    words = name_words(name)
    subject = frozenset(word.removesuffix("s") for word in name_words(table.rpartition(".")[2]))
    score = 0
    if words and words[-1] in _STRONG:
        own = frozenset(word.removesuffix("s") for word in words[:-1])
        score += 6 if not own or own <= subject else 4
    elif frozenset(words) & _STRONG:
        score += 3
    elif frozenset(words) & _WEAK:
        score += 2
    if words and frozenset(word.removesuffix("s") for word in words) <= subject:
        score += 5
    if frozenset(words) & _MEASURES or (at.is_decimal(kind) and kind.scale):
        score -= 3
    if at.is_temporal(kind) or at.is_floating(kind):
        score -= 1
    return score


def _are_unique(rows: pa.Table, names: Sequence[str]) -> bool:
    return all(
        part.group_by(list(names)).aggregate([]).num_rows == part.num_rows
        for part in (rows.select(names).slice(0, _FEW), rows.select(names))
    )


def _personal(rows: pa.Table, name: str, table: str) -> str | None:
    """Why a column looks personal, by its name or by some of its values."""
    values: list[str] = []
    if name in rows.column_names and not at.is_nested(rows[name].type):
        kind = kind_of(rows[name].type)
        if kind in ("text", "integer"):
            some = rows[name].drop_null().slice(0, 10 * _VALUES).unique().slice(0, _VALUES)
            values = as_texts(some.to_pylist(), kind)
    return personal_evidence(name, table, values)
