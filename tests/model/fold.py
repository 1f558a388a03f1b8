"""What a set of events folds to: states, current rows, history rows. Sections 3, 4, 5 and 8."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from model.events import TRUNCATE, UPSERT, Event, Rules
from model.values import rank, ranks, same_on

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

Row = dict[str, Any]


@dataclass(frozen=True)
class State:
    """What a key holds after all its events of one order and before: its values, or None for no row."""

    order: tuple[Any, ...]
    time: Any
    values: Row | None


def events_by_key(events: Iterable[Event], rules: Rules) -> dict[tuple[Any, ...], list[Event]]:
    """Each key's events, with every truncate among them: it is a delete of every key."""
    found: dict[tuple[Any, ...], list[Event]] = {}
    truncates = []
    for event in events:
        if event.op == TRUNCATE:
            truncates.append(event)
        else:
            found.setdefault(rules.key_of(event.row), []).append(event)
    return {key: own + truncates for key, own in found.items()}


def states(events: Sequence[Event], rules: Rules) -> list[State]:
    """The state of one key after each distinct order."""
    found = []
    written: Row = {}  # what events wrote since the last delete or truncate
    for _, group in groupby(sorted(events, key=lambda e: ranks(e.order)), key=lambda e: ranks(e.order)):
        together = list(group)
        if any(e.op != UPSERT for e in together):
            written = {}  # also one that loses the tie ends inheritance
        winner = max(together, key=rules.strength)
        if winner.op == UPSERT:
            sent = {c: winner.row.get(c) for c in rules.values}
            written = written | {c: v for c, v in sent.items() if not rules.inherits(c, v)}
            values = dict(zip(rules.keys, rules.key_of(winner.row), strict=True))
            values |= {c: written.get(c) for c in rules.values}
            found.append(State(winner.order, winner.time, values))
        else:
            found.append(State(winner.order, winner.time, None))
    return found


def current(events: Iterable[Event], rules: Rules) -> dict[tuple[Any, ...], Row]:
    """The current row of each key that has one, with the order of its last event."""
    found = {}
    for key, own in events_by_key(events, rules).items():
        last = states(own, rules)[-1]
        if last.values is not None:
            found[key] = last.values | {"_order": last.order}
    return found


def history(events: Iterable[Event], rules: Rules) -> list[Row]:
    """The versions of every key, each with its two intervals."""
    return [
        row for own in events_by_key(events, rules).values() for row in versions(states(own, rules), rules)
    ]


def versions(after: Sequence[State], rules: Rules) -> Iterator[Row]:
    """The versions of one key: one row for each run of states that agree on the tracked columns."""
    marked = _marked(after, rules)
    while marked:
        state, values, dead = marked[0]
        length = 1
        while length < len(marked) and _continues(values, dead, marked[length], rules):
            length += 1
        last = marked[length - 1]
        ending = marked[length][0] if length < len(marked) else None
        if values is not None:
            assert last[1] is not None
            yield last[1] | {
                "_order_from": state.order,
                "_order_to": ending.order if ending else None,
                "_order_last": last[0].order,
                "effective_from": state.time,
                "effective_to": max(state.time, ending.time, key=rank) if ending else None,
                "_tombstone": dead,
            }
        marked = marked[length:]


_Marked = tuple[State, Row | None, bool]


def _marked(after: Sequence[State], rules: Rules) -> list[_Marked]:
    """States with the values that history shows: a deleted row's last ones, where tombstones are kept."""
    found: list[_Marked] = []
    for state in after:
        before = found[-1][1] if found else None
        dead = state.values is None and rules.tombstones and before is not None
        found.append((state, before if dead else state.values, dead))
    return found


def _continues(values: Row | None, dead: bool, following: _Marked, rules: Rules) -> bool:
    _, now, now_dead = following
    if values is None or now is None:
        return values is now
    return dead == now_dead and same_on(values, now, rules.tracked)


def as_of(versions_of_all: Iterable[Row], time: Any, keys: Sequence[str]) -> list[Row]:
    """The version of each key that was in effect at a time; of several the one that opened last."""
    found: dict[tuple[Any, ...], Row] = {}
    for row in versions_of_all:
        started = rank(row["effective_from"]) <= rank(time)
        lasting = row["effective_to"] is None or rank(time) < rank(row["effective_to"])
        key = tuple(row[k] for k in keys)
        if started and lasting:
            other = found.get(key)
            if other is None or ranks(other["_order_from"]) < ranks(row["_order_from"]):
                found[key] = row
    return list(found.values())
