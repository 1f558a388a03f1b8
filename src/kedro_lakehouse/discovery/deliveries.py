"""How the files of a dataset follow each other: each the whole table, or each with more rows or changes."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.discovery.keys import Keys, are_unique, find_keys

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

FILES: Final = "files"
"""Option of a dataset of several files: ``extracts`` or ``changes``, where their rows tell."""
TIME: Final = "time_pattern"
"""Option of a dataset: the pattern of a time that each of its files has in its name."""
_EXTRACT: Final = 0.5
"""Two files are extracts of one table if they share so many of the keys of the smaller one."""
_DIGEST: Final = re.compile(r"(?<![A-Za-z0-9])[0-9a-f]{6,}(?![A-Za-z0-9])")
_PATTERNS: Final[Mapping[str, str]] = {
    r"(?<!\d)\d{4}-\d{2}-\d{2}T\d{6}Z": "%Y-%m-%dT%H%M%SZ",
    r"(?<!\d)\d{8}T\d{6}Z": "%Y%m%dT%H%M%SZ",
    r"(?<!\d)\d{4}-\d{2}-\d{2}_\d{6}(?!\d)": "%Y-%m-%d_%H%M%S",
    r"(?<!\d)(?:19|20)\d{12}(?!\d)": "%Y%m%d%H%M%S",
    r"(?<!\d)(?:19|20)\d{6}[-_]\d{6}(?!\d)": "%Y%m%d{}%H%M%S",
    r"(?<!\d)(?:19|20)\d{2}-\d{2}-\d{2}(?!\d)": "%Y-%m-%d",
    r"(?<!\d)(?:19|20)\d{2}_\d{2}_\d{2}(?!\d)": "%Y_%m_%d",
    r"(?<!\d)(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])(?!\d)": "%Y%m%d",
    r"(?<!\d)(?:0[1-9]|[12]\d|3[01])\.(?:0[1-9]|1[0-2])\.(?:19|20)\d{2}(?!\d)": "%d.%m.%Y",
    r"(?<!\d)(?:19|20)\d{2}-\d{2}(?![-\d])": "%Y-%m",
    r"(?<!\d)(?:19|20)\d{2}_(?:0[1-9]|1[0-2])(?!\d)": "%Y_%m",
}


def time_pattern(names: Sequence[str]) -> str | None:
    """The pattern of the time that each of these file names has; None where one has none.

    Example:
        >>> time_pattern(["prices_2026-01-05.csv", "prices_2026-01-06.csv"])
        '%Y-%m-%d'
    """
    for expression, pattern in _PATTERNS.items():
        found = [re.search(expression, name) for name in names]
        if not all(found):
            continue
        if "{}" not in pattern:
            return pattern
        between = {one[0][8] for one in found if one}
        if len(between) == 1:
            return pattern.format(between.pop())
    return None


def at_any_time(name: str) -> str:
    """A pattern of the names that differ from this one in their time alone.

    Example:
        >>> at_any_time("prices_2026-01-05.csv"), at_any_time("prices.csv")
        ('prices_*.csv', 'prices.csv')
    """
    for expression in _PATTERNS:
        changed = re.sub(expression, "*", name, count=1)
        if changed != name:
            return changed
    return name


def are_deliveries(names: Sequence[str]) -> bool:
    """Whether files are of one table by their names, which differ in a time and in digests alone.

    Example:
        >>> are_deliveries(["2026-01-05_6517cdbb_items.csv", "2026-02-05_f8d9c4a0_items.csv"])
        True
        >>> are_deliveries(["2026-01-05_items.csv", "2026-01-05_orders.csv"])
        False
    """
    shapes = {_DIGEST.sub("#", at_any_time(name)) for name in names}
    return len(names) > 1 and len(shapes) == 1 and time_pattern(names) is not None


def keys_of_deliveries(older: pa.Table, newer: pa.Table, *, table: str) -> tuple[Keys, dict[str, Any]]:
    """The key that rows have within a file, where files repeat rows, and what the files then are.

    Args:
        older: Rows of the file before the newest one.
        newer: Rows of the newest file.
        table: The table's name.
    """
    keys = find_keys(newer, table=table)
    names = list(keys.chosen)
    if not names or not set(names) <= set(older.column_names) or not are_unique(older, names):
        return Keys(), {}
    before = {tuple(row.values()) for row in older.select(names).to_pylist()}
    after = {tuple(row.values()) for row in newer.select(names).to_pylist()}
    shared = len(before & after) / (min(len(before), len(after)) or 1)
    alike = min(len(before), len(after)) >= _EXTRACT * max(len(before), len(after))
    if not shared:
        return Keys(), {}
    return keys, {FILES: "extracts" if alike and shared >= _EXTRACT else "changes"}
