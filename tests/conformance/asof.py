"""Cases of as-of reads: versions that are given, and the rows that are to be seen at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from conformance.reading import known

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Row = dict[str, Any]


def versions_of(case: Mapping[str, Any]) -> list[Row]:
    """The given versions; where their orders are not given they are those of the list."""
    found = []
    for place, row in enumerate(case["scd2"]):
        values = {n: v for n, v in row.items() if not n.startswith("_")}
        known(row, [*values, "_from", "_to", "_order_from"], case["id"])
        opened = row.get("_order_from", place)
        found.append(
            values
            | {
                "effective_from": row["_from"],
                "effective_to": row["_to"],
                "_order_from": tuple(opened) if isinstance(opened, list) else (opened,),
            }
        )
    return found


def queries_of(case: Mapping[str, Any]) -> list[Row]:
    """The questions of a case."""
    return [dict(known(q, {"at", "rows"}, case["id"])) for q in case["queries"]]


def expected_rows(case: Mapping[str, Any], found: Iterable[Row]) -> list[Any]:
    """Found rows as the case writes them: the one value beside the key, or whole rows."""
    names = [n for n in case["scd2"][0] if not n.startswith("_") and n != "id"]
    whole = any(isinstance(r, dict) for q in case["queries"] for r in q["rows"])
    rows = [{n: v for n, v in r.items() if n in ("id", *names)} for r in found]
    assert whole or len(names) == 1, f"{case['id']}: which column do the rows show?"
    return sorted((r if whole else r[names[0]] for r in rows), key=repr)
