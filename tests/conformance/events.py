"""A case's events, typed: as the model takes them and as they land."""

from __future__ import annotations

import random
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from model.events import FROM_THE_ORDER, UPSERT, Event, Rules

from conformance.reading import Options, known
from conformance.typed import plain_type, type_of, typed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Batches = list[list[Event]]


@dataclass(frozen=True, kw_only=True)
class Typing:
    """The types of a case's columns and of the elements of its order; whether events tell their time."""

    columns: Mapping[str, str]
    order: tuple[str, ...]
    time: str | None = None


def typing_of(
    raw: Sequence[Mapping[str, Any]], columns: Sequence[str], options: Options,
    declared: Mapping[str, str] | None = None,
) -> Typing:  # fmt: skip
    """Find the types of these events; declared ones stand."""
    told = {n: plain_type(t) for n, t in (dict(options.types) | dict(declared or {})).items()}
    types = {}
    for name in columns:
        values = [e["row"].get(name) for e in raw]
        held = [v for v in values if options.unset_marker is None or v != options.unset_marker]
        types[name] = told.get(name) or type_of(held)
    orders = [e["seq"] if isinstance(e["seq"], list) else [e["seq"]] for e in raw]
    width = max((len(o) for o in orders), default=1)
    order = tuple(
        type_of([o[i] for o in orders if i < len(o)], instants=True) if orders else "bigint"
        for i in range(width)
    )
    order = tuple(
        "bigint" if all(i >= len(o) or o[i] is None for o in orders) else t for i, t in enumerate(order)
    )
    times = [e["time"] for e in raw if "time" in e]
    return Typing(columns=types, order=order, time=type_of(times, instants=True) if times else None)


def columns_of(raw: Sequence[Mapping[str, Any]], options: Options) -> tuple[str, ...]:
    """The columns of a table: those that the case lists, else those that its rows have."""
    if options.columns is not None:
        return options.columns
    return tuple(dict.fromkeys([*options.keys, *(n for e in raw for n in e["row"])]))


def event_of(raw: Mapping[str, Any], kinds: Typing, options: Options, place: str) -> Event:
    """One event of a case."""
    known(raw, {"op", "seq", "row", "time"}, f"{place}: event")
    known(raw["row"], kinds.columns, f"{place}: row")
    order = raw["seq"] if isinstance(raw["seq"], list) else [raw["seq"]]
    order = [*order, *([None] * (len(kinds.order) - len(order)))]
    row = {
        n: v if v is not None and v == options.unset_marker else typed(v, kinds.columns[n])
        for n, v in raw["row"].items()
    }
    time = typed(raw.get("time"), kinds.time) if kinds.time else FROM_THE_ORDER
    return Event(raw["op"], tuple(map(typed, order, kinds.order)), row, time)


def rules_of(options: Options, columns: Sequence[str]) -> Rules:
    """The rules of a case's table."""
    renamed = {new: old for old, new in reversed(options.rename)}
    return Rules(
        keys=options.keys, columns=tuple(columns), track=options.track, ignore_null=options.ignore_null,
        untracked=tuple(c for c in (options.valid_from, options.updated_at) if c),
        unset_marker=options.unset_marker, on_tie=options.on_tie or "delete_wins",
        tombstones=options.hard_deletes == "tombstone", received_names=renamed,
    )  # fmt: skip


def variants(batches: Batches, seed: str) -> dict[str, Batches]:
    """Other ways in which the same events may arrive: at once, from the last to the first, and repeated."""
    events = [e for batch in batches for e in batch]
    chance = random.Random(seed)  # noqa: S311 - a reproducible shuffle
    repeated = [*events, *(e for e in events if chance.random() < 0.5)]
    chance.shuffle(repeated)
    return {
        "at_once": [events],
        "reversed": _split(events[::-1], 2),
        "shuffled": _split(repeated, 2),
    }


def _split(events: list[Event], n: int) -> Batches:
    bounds = [round(i * len(events) / n) for i in range(n + 1)]
    return [events[a:b] for a, b in pairwise(bounds) if a < b]


def sends_markers(events: Sequence[Event], column: str, options: Options) -> bool:
    """Whether a column that is no text holds the marker of values that were not sent."""
    marker = options.unset_marker
    return marker is not None and any(e.op == UPSERT and e.row.get(column) == marker for e in events)
