"""What is expected and what was found: the differences in words, none if there are none."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from model.values import ranks

from conformance.reading import known
from conformance.typed import time_of, typed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from conformance.events import Typing

Row = dict[str, Any]
_ENDS = {"_from": "_order_from", "_to": "_order_to"}
_TIMES = {"_from": "effective_from", "_to": "effective_to"}
_MARK = {"_deleted": "_tombstone"}


def row_differences(expected: Iterable[Row], found: Iterable[Row], what: str) -> list[str]:
    """Rows that only one of two bags has; found rows are seen through the expected rows' columns."""
    expected, found = list(expected), list(found)
    names = list(dict.fromkeys(n for r in expected for n in r))
    if not expected:
        return [f"{what}: no rows expected, found {len(found)}: {found[:3]}"] if found else []
    if lacking := [n for n in names if any(n not in r for r in found)]:
        return [f"{what}: found rows lack the columns {lacking}"]

    def seen(rows: Sequence[Row]) -> Counter[Any]:
        return Counter(ranks(r.get(n) for n in names) for r in rows)

    one, two = seen(expected), seen(found)
    lost, gained = one - two, two - one
    missing = [r for r in expected if lost[ranks(r.get(n) for n in names)]]
    extra = [{n: r[n] for n in names} for r in found if gained[ranks(r.get(n) for n in names)]]
    words = [f"{what}: missing {r}" for r in missing] + [f"{what}: not expected {r}" for r in extra]
    return words or ([f"{what}: rows occur another number of times"] if one != two else [])


def expected_current(rows: Sequence[Row], kinds: Typing, place: str) -> list[Row]:
    """Expected current rows, typed."""
    return [_values(known(r, kinds.columns, f"{place}: scd1"), kinds) for r in rows]


def expected_history(rows: Sequence[Row], kinds: Typing, place: str, *, times: bool) -> list[Row]:
    """Expected versions, typed: their intervals are of orders, or with ``times`` of effective times."""
    names = (_TIMES if times else _ENDS) | _MARK
    found = []
    for row in rows:
        known(row, [*kinds.columns, *names], f"{place}: scd2")
        ends = {names[n]: _end(row[n], kinds, times=times) for n in ("_from", "_to") if n in row}
        mark = {"_tombstone": row["_deleted"]} if "_deleted" in row else {}
        found.append(_values({n: v for n, v in row.items() if n not in names}, kinds) | ends | mark)
    return found


def _values(row: Mapping[str, Any], kinds: Typing) -> Row:
    return {n: typed(v, kinds.columns[n]) for n, v in row.items()}


def _end(value: Any, kinds: Typing, *, times: bool) -> Any:
    if value is None:
        return None
    if times:
        return time_of(value) if isinstance(value, str) else value
    order = value if isinstance(value, list) else [value]
    order = [*order, *([None] * (len(kinds.order) - len(order)))]
    return tuple(map(typed, order, kinds.order))


_METRICS = {
    **{n: n for n in ("events_in", "applied", "duplicates", "quarantined", "late", "stale_ignored",
                      "too_late", "sequence_ties", "unchanged", "changed_without_newer_timestamp")},
    **{f"scd1_{n}": n for n in ("inserted", "updated", "deleted", "stale_ignored")},
    **{f"scd2_{n}": n for n in ("opened", "closed", "rewritten", "removed")},
    **{f"{n}_sequence": f"{n}_order" for n in ("min", "max")},
}  # fmt: skip


def metric_differences(expected: Mapping[str, Any], found: Mapping[str, Any], place: str) -> list[str]:
    """Expected counts that differ from the found ones; what is not counted is a difference."""
    known(expected, _METRICS, f"{place}: metrics")
    return [
        f"metrics: {name} expected {value}, found {found.get(_METRICS[name])}"
        for name, value in expected.items()
        if not _same_metric(value, found.get(_METRICS[name]))
    ]


def _same_metric(expected: Any, found: Any) -> bool:
    if isinstance(found, (list, tuple)):
        return list(found) == (expected if isinstance(expected, list) else [expected])
    return bool(expected == found)


def quarantine_differences(expected: Sequence[Row], reasons: Sequence[str]) -> list[str]:
    """Expected reasons and their numbers, against the reasons of all quarantined events."""
    wanted = {e["reason"]: e["n"] for e in (known(e, {"reason", "n"}, "quarantine") for e in expected)}
    found = dict(Counter(reasons))
    return [] if wanted == found else [f"quarantine: expected {wanted}, found {found}"]
