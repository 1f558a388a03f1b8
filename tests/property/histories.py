"""Random histories of keys, drawn by hypothesis, and the tables that take them."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from conformance.cases import Step, TableCase
from conformance.events import Typing
from conformance.reading import Options
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st
from model.events import DELETE, FROM_THE_ORDER, TRUNCATE, UPSERT, Event

if TYPE_CHECKING:
    from collections.abc import Sequence

T = TypeVar("T")
ROUNDS = 3
MARKER = "__unavailable"
COLUMNS = {"h": "bigint", "k": "bigint", "v": "string", "w": "bigint"}


@dataclass(frozen=True, kw_only=True)
class Design:
    """A declaration, and what its histories may hold beyond upserts and deletes."""

    name: str
    options: Options
    fields: int = 1
    own_time: bool = False
    truncates: bool = False

    @property
    def typing(self) -> Typing:
        """The types of what lands."""
        return Typing(
            columns=COLUMNS, order=("bigint",) * self.fields, time="bigint" if self.own_time else None
        )


def _design(
    name: str, *, fields: int = 1, own_time: bool = False, truncates: bool = False, **options: Any
) -> Design:
    declared = Options(keys=("h", "k"), columns=tuple(COLUMNS), **options)
    return Design(name=name, options=declared, fields=fields, own_time=own_time, truncates=truncates)


DESIGNS = (
    _design("plain"),
    _design("upsert_wins", on_tie="upsert_wins", own_time=True),
    _design("all_ignored", ignore_null="*", on_tie="upsert_wins"),
    _design("one_ignored", ignore_null=("v",)),
    _design("unset", unset_marker=MARKER),
    _design("tracked", track=("v",)),
    _design("tombstones", hard_deletes="tombstone", own_time=True),
    _design("two_fields", fields=2, own_time=True),
    _design("truncated", truncates=True),
    _design("truncated_partly", truncates=True, ignore_null="*", on_tie="upsert_wins"),
)


@dataclass(frozen=True)
class Arrival:
    """An event of a key history (its key is a local number), and the batches in which it arrives."""

    event: Event
    batches: tuple[int, ...]


@st.composite
def histories(draw: st.DrawFn, design: Design) -> list[Arrival]:
    """The history of two keys between which rows may move, and how it arrives."""
    found: list[Event] = []
    for _ in range(draw(st.integers(1, 7))):
        found += draw(_facts(design))
    if draw(st.booleans()):  # mostly in order: the k-th event does not come before its time
        found.sort(key=lambda e: (e.order[0], e.order[-1] or 0))
        batches = sorted(draw(st.lists(st.integers(0, ROUNDS - 1), min_size=len(found), max_size=len(found))))
    else:
        batches = draw(st.lists(st.integers(0, ROUNDS - 1), min_size=len(found), max_size=len(found)))
    again = draw(st.lists(st.integers(0, 4 * ROUNDS), min_size=len(found), max_size=len(found)))
    return [
        Arrival(e, (b, *([a] if a < ROUNDS else []))) for e, b, a in zip(found, batches, again, strict=True)
    ]


def _orders(fields: int) -> st.SearchStrategy[tuple[Any, ...]]:
    first = st.tuples(st.integers(1, 6 if fields == 1 else 3))
    if fields == 1:
        return first
    return st.tuples(st.integers(1, 3), st.one_of(st.none(), st.integers(1, 3)))


@st.composite
def _facts(draw: st.DrawFn, design: Design) -> list[Event]:
    """One event; or a move, which is the delete of one key and the upsert of the other, of equal order."""
    order = draw(_orders(design.fields))
    at = draw(st.integers(1, 9)) if design.own_time else FROM_THE_ORDER
    kind = draw(st.sampled_from([UPSERT, UPSERT, UPSERT, UPSERT, DELETE, DELETE, "move"]))
    key = draw(st.integers(0, 1))
    texts = ["a", "b", "", None] + [MARKER] * (design.options.unset_marker is not None)
    row = {"k": key, "v": draw(st.sampled_from(texts)), "w": draw(st.sampled_from([1, 2, None]))}
    if kind == "move":
        return [Event(DELETE, order, {"k": 1 - key}, at), Event(UPSERT, order, row, at)]
    return [Event(kind, order, row if kind == UPSERT else {"k": key}, at)]


def drawn(strategy: st.SearchStrategy[T], count: int, seed: int) -> list[T]:
    """So many values of a strategy, the same for the same seed; no example is kept or made smaller."""
    found: list[T] = []
    while len(found) < count:

        @seeded(seed + len(found))
        @settings(
            max_examples=count - len(found), database=None, deadline=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(strategy)
        def collect(value: T) -> None:
            found.append(value)

        collect()
    return found[:count]


def table_of(design: Design, count: int, seed: int) -> TableCase:
    """A table with so many random histories, in its batches; each batch arrives in a random order."""
    chance = random.Random(f"{design.name}/{seed}")  # noqa: S311 - reproducible
    batches: list[list[Event]] = [[] for _ in range(ROUNDS)]
    for number, history in enumerate(drawn(histories(design), count, seed)):
        for arrival in history:
            event = replace(arrival.event, row={"h": number, **arrival.event.row})
            for batch in arrival.batches:
                batches[batch].append(event)
    if design.truncates:
        for _ in range(3):
            truncate = Event(TRUNCATE, (chance.randint(1, 6),))
            for batch in chance.sample(range(ROUNDS), chance.randint(1, 2)):
                batches[batch].append(truncate)
    for batch in batches:
        chance.shuffle(batch)
    return table(design, batches)


def table(design: Design, batches: Sequence[list[Event]]) -> TableCase:
    """A table of a design that takes these batches."""
    steps = [
        Step(options=design.options, columns=tuple(COLUMNS), kinds=design.typing, events=list(batch))
        for batch in batches
    ]
    return TableCase(id=design.name, steps=steps, expect={})
