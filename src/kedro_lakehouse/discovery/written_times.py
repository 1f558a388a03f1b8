"""Dates and times of csv files that are not in ISO 8601: the patterns by which Spark reads them."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from itertools import chain, product
from typing import TYPE_CHECKING, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_DAYS: Final = (
    (r"\d{1,2}\.\d{1,2}\.\d{4}", "d.M.yyyy", "%d.%m.%Y"),
    (r"\d{1,2}/\d{1,2}/\d{4}", "d/M/yyyy", "%d/%m/%Y"),
    (r"\d{1,2}/\d{1,2}/\d{4}", "M/d/yyyy", "%m/%d/%Y"),
    (r"\d{1,2}-\d{1,2}-\d{4}", "d-M-yyyy", "%d-%m-%Y"),
    (r"\d{1,2}-\d{1,2}-\d{4}", "M-d-yyyy", "%m-%d-%Y"),
    (r"\d{4}/\d{1,2}/\d{1,2}", "yyyy/M/d", "%Y/%m/%d"),
    (r"[A-Z][a-z]{2} \d{1,2} \d{4}", "MMM d yyyy", "%b %d %Y"),
    (r"[A-Z][a-z]{2} \d{1,2}, \d{4}", "MMM d, yyyy", "%b %d, %Y"),
    (r"\d{1,2}-[A-Z][a-z]{2}-\d{4}", "d-MMM-yyyy", "%d-%b-%Y"),
)
"""How a day is written: what it looks like, Spark's pattern, and the same in C's letters."""
_CLOCKS: Final = (
    (r" \d{1,2}:\d{2}", " H:mm", " %H:%M"),
    (r" \d{1,2}:\d{2}:\d{2}", " H:mm:ss", " %H:%M:%S"),
)
DATES: Final = "date_format"
"""Option of files of csv: Spark's pattern of their dates."""
TIMES: Final = "timestamp_format"
"""Option of files of csv: Spark's pattern of their times."""


class _Pattern(NamedTuple):
    looks: str
    spark: str
    c: str


_PATTERNS: Final[Mapping[str, tuple[_Pattern, ...]]] = {
    DATES: tuple(_Pattern(*day) for day in _DAYS),
    TIMES: tuple(
        _Pattern(*(one + two for one, two in zip(day, clock, strict=True)))
        for day, clock in product(_DAYS, _CLOCKS)
    ),
}
_KINDS: Final[Mapping[str, pa.DataType]] = {DATES: pa.date32(), TIMES: pa.timestamp("us")}


@dataclass(frozen=True)
class WrittenTimes:
    """What was found: rows whose texts became times, the options of their patterns, and what stays text."""

    rows: pa.Table
    options: Mapping[str, str] = field(default_factory=dict)
    remarks: Sequence[str] = ()


def with_written_times(rows: pa.Table) -> WrittenTimes:
    """Read dates and times of columns that are text, where one pattern fits all of them.

    A source has one pattern of its dates and one of its times. So columns stay text where another one has
    ISO 8601, where a third pattern would be needed, and where day and month may stand in either order.

    Args:
        rows: Rows of csv files, in the types that their texts stand for.
    """
    options: dict[str, str] = {}
    remarks: list[str] = []
    texts = {f.name: rows[f.name].unique().drop_null() for f in rows.schema if pa.types.is_string(f.type)}
    for option, kind in _KINDS.items():
        fits = {name: found for name, given in texts.items() if (found := _fitting(given, option))}
        if not fits:
            continue
        chosen = _chosen(fits)
        iso = next((f.name for f in rows.schema if _is_like(f.type, kind)), None)
        for name, patterns in fits.items():
            if iso is None and chosen in patterns:
                times = pc.strptime(rows[name], format=chosen.c, unit="us").cast(kind)
                rows = rows.set_column(rows.column_names.index(name), name, times)
                options[option] = chosen.spark
            else:
                remarks.append(_remark(name, option, patterns, iso))
    return WrittenTimes(rows, options, remarks)


def _fitting(given: pa.Array, option: str) -> list[_Pattern]:
    """The patterns by which every text of a column is a date or a time; none where there is no text."""
    first = given[0].as_py() if len(given) else ""

    def fits(pattern: _Pattern) -> bool:
        if re.fullmatch(pattern.looks, first) is None:  # most columns end here
            return False
        if not pc.all(pc.match_substring_regex(given, f"^{pattern.looks}$")).as_py():
            return False
        times = pc.strptime(given, format=pattern.c, unit="s", error_is_null=True)
        # Arrow takes 31 February for 3 March: only the same text says that it is the same day.
        again = pc.strftime(times, format=pattern.c)
        return bool(times.null_count == 0 and _without_zeros(again).equals(_without_zeros(given)))

    return [pattern for pattern in _PATTERNS[option] if fits(pattern)]


def _without_zeros(texts: pa.Array) -> pa.Array:
    """Texts without a zero at the beginning of a number."""
    return pc.replace_substring_regex(texts, r"\b0(\d)", r"\1")


def _chosen(fits: Mapping[str, Sequence[_Pattern]]) -> _Pattern | None:
    """The pattern that fits most columns; None where a second one fits as many of them."""
    (first, most), *others = Counter(chain.from_iterable(fits.values())).most_common()
    return None if others and others[0][1] == most else first


def _is_like(kind: pa.DataType, wanted: pa.DataType) -> bool:
    return bool(pa.types.is_timestamp(kind) if pa.types.is_timestamp(wanted) else kind == wanted)


def _remark(name: str, option: str, patterns: Sequence[_Pattern], iso: str | None) -> str:
    """Why a column stays text, and what a person can say who knows better."""
    kind = "date" if option == DATES else "timestamp_ntz"
    words = " or ".join(pattern.spark for pattern in patterns)
    if iso is not None:
        return f"{name}: text like {words}; {iso} is in ISO 8601, and a source has one {option}"
    return f"{name}: text like {words}; say which by {option} in `csv`, then `types: {{{name}: {kind}}}`"
