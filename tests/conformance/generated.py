"""Cases that give a generator of events and the properties that hold for all that it makes."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from model.events import DELETE, UPSERT, Event, Rules
from model.invariants import violations
from model.values import ranks

from conformance.cases import Step, TableCase
from conformance.comparing import row_differences
from conformance.events import Typing
from conformance.reading import Options, check_keys, known

if TYPE_CHECKING:
    from collections.abc import Mapping

    from conformance.cases import Found

_COLUMNS = {"id": "bigint", "v": "string", "w": "bigint"}
_KNOWN = {
    "scd1(batched)==scd1(single sorted batch)",
    "scd2(batched)==scd2(single sorted batch)",
    "scd1 == open rows of scd2 (values)",
    "intervals of a key do not overlap",
    "at most one open row per key",
    "_from < _to",
    "adjacent rows differ in a tracked column or are separated by a gap",
    "every _from is the sequence of some event",
}


def property_case(case: Mapping[str, Any], seed: int = 0) -> tuple[TableCase, Rules]:
    """A table with events of the case's generator, shuffled into its batches."""
    check_keys(case)
    wanted = known(
        case["generator"],
        {"keys", "max_events_per_key", "p_delete", "p_duplicate", "p_null", "batches"},
        case["id"],
    )
    known(dict.fromkeys(case["properties"]), _KNOWN, case["id"])
    chance = random.Random(f"{case['id']}/{seed}")  # noqa: S311
    events = []
    for key in range(wanted["keys"]):
        for _ in range(chance.randint(1, wanted["max_events_per_key"])):
            row = {"id": key, "v": chance.choice("abc"), "w": chance.randint(1, 2)}
            row |= {n: None for n in ("v", "w") if chance.random() < wanted["p_null"]}
            op = DELETE if chance.random() < wanted["p_delete"] else UPSERT
            events.append(Event(op, (chance.randint(1, 100),), row if op == UPSERT else {"id": key}))
    events += [e for e in events if chance.random() < wanted["p_duplicate"]]
    chance.shuffle(events)
    options = Options(keys=("id",), columns=tuple(_COLUMNS))
    kinds = Typing(columns=_COLUMNS, order=("bigint",))
    steps = [
        Step(options=options, columns=tuple(_COLUMNS), kinds=kinds, events=events[i :: wanted["batches"]])
        for i in range(wanted["batches"])
    ]
    return TableCase(id=case["id"], steps=steps, expect={}), Rules(keys=("id",), columns=tuple(_COLUMNS))


def broken_properties(
    case: Mapping[str, Any], batched: Found, at_once: Found, table: TableCase, rules: Rules
) -> list[str]:
    """The properties that do not hold for what was found; all are looked at, whatever the case lists."""
    current, history = batched.current or [], batched.history or []
    words = row_differences(at_once.current or [], current, "scd1(batched)==scd1(single sorted batch)")
    sorted_history = at_once.history or []
    if history and "_tombstone" not in history[0]:  # only histories with tombstones have the column
        assert not any(r["_tombstone"] for r in sorted_history)
        sorted_history = [{n: v for n, v in r.items() if n != "_tombstone"} for r in sorted_history]
    words += row_differences(sorted_history, history, "scd2(batched)==scd2(single sorted batch)")
    words += violations(current, history, rules)
    orders = {ranks(e.order) for s in table.steps for e in s.events}
    if any(ranks(r["_order_from"]) not in orders for r in history):
        words.append("every _from is the sequence of some event")
    return words
