"""What holds for every history and current table, whatever the events: section 5."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

from model.values import ranks, same_on

if TYPE_CHECKING:
    from collections.abc import Iterable

    from model.events import Rules
    from model.fold import Row


def violations(current: Iterable[Row], history: Iterable[Row], rules: Rules) -> list[str]:
    """Every invariant that the two tables break, in words."""
    found: list[str] = []
    by_key: dict[Any, list[Row]] = {}
    for row in history:
        by_key.setdefault(ranks(rules.key_of(row)), []).append(row)
    for rows in by_key.values():
        found += _of_one_key(rows, rules)
    opened = [
        (ranks(r[c] for c in rules.columns), ranks(r["_order_last"]))
        for rows in by_key.values()
        for r in rows
        if r["_order_to"] is None and not r.get("_tombstone")
    ]
    present = [(ranks(r[c] for c in rules.columns), ranks(r["_order"])) for r in current]
    if sorted(opened) != sorted(present):
        found.append("current is not the open rows of history")
    return found


def _of_one_key(rows: list[Row], rules: Rules) -> list[str]:
    found = []
    key = rules.key_of(rows[0])
    rows = sorted(rows, key=lambda r: ranks(r["_order_from"]))
    if sum(r["_order_to"] is None for r in rows) > 1:
        found.append(f"{key} has two open rows")
    for row in rows:
        if row["_order_to"] is not None and ranks(row["_order_from"]) >= ranks(row["_order_to"]):
            found.append(f"{key} has a row that ends before it starts")
        if ranks(row["_order_last"]) < ranks(row["_order_from"]):
            found.append(f"{key} has a row whose last event is before its first")
    for one, two in pairwise(rows):
        if one["_order_to"] is None or ranks(one["_order_to"]) > ranks(two["_order_from"]):
            found.append(f"{key} has rows that overlap")
        elif ranks(one["_order_to"]) == ranks(two["_order_from"]) and (
            bool(one.get("_tombstone")) == bool(two.get("_tombstone")) and same_on(one, two, rules.tracked)
        ):
            found.append(f"{key} has equal rows that touch")
    return found
