"""The model itself: what it says does not depend on how events arrive, and keeps every invariant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from conformance.comparing import row_differences
from conformance.events import rules_of
from hypothesis import given, settings
from hypothesis import strategies as st
from model.events import TRUNCATE, Event
from model.fold import current, history
from model.invariants import violations
from model.table import Table

from property.histories import COLUMNS, DESIGNS, ROUNDS, histories

if TYPE_CHECKING:
    from property.histories import Arrival, Design

pytestmark = [pytest.mark.property, pytest.mark.unit]

EXAMPLES = settings(max_examples=60, deadline=None, derandomize=True, database=None)


def events_of(arrivals: list[Arrival], truncates: list[int]) -> list[Event]:
    return [*(a.event for a in arrivals), *(Event(TRUNCATE, (t,)) for t in truncates)]


def drawn(data: st.DataObject, design: Design) -> tuple[list[Event], list[Arrival]]:
    arrivals = data.draw(histories(design))
    truncates = data.draw(st.lists(st.integers(1, 6), max_size=2)) if design.truncates else []
    return events_of(arrivals, truncates), arrivals


@pytest.mark.parametrize("design", DESIGNS, ids=lambda d: d.name)
@EXAMPLES
@given(st.data())
def test_any_order_and_any_repetition_fold_to_the_same_tables(design: Design, data: st.DataObject) -> None:
    events, _ = drawn(data, design)
    rules = rules_of(design.options, tuple(COLUMNS))
    shuffled = data.draw(st.permutations(events + events[: len(events) // 2]))
    one, two = list(current(events, rules).values()), list(current(shuffled, rules).values())
    assert row_differences(one, two, "current") == []
    assert row_differences(history(events, rules), history(shuffled, rules), "history") == []


@pytest.mark.parametrize("design", DESIGNS, ids=lambda d: d.name)
@EXAMPLES
@given(st.data())
def test_every_fold_keeps_the_invariants(design: Design, data: st.DataObject) -> None:
    events, _ = drawn(data, design)
    rules = rules_of(design.options, tuple(COLUMNS))
    assert violations(current(events, rules).values(), history(events, rules), rules) == []


@pytest.mark.parametrize("design", DESIGNS, ids=lambda d: d.name)
@EXAMPLES
@given(st.data())
def test_batches_count_each_event_once_and_ties_however_they_arrive(
    design: Design, data: st.DataObject
) -> None:
    events, arrivals = drawn(data, design)
    rules = rules_of(design.options, tuple(COLUMNS))
    batched, at_once = Table(rules), Table(rules)
    whole = at_once.apply(events)
    counts = [batched.apply([a.event for a in arrivals if n in a.batches]) for n in range(ROUNDS)]
    for count in [whole, *counts]:
        assert count["events_in"] == count["applied"] + count["duplicates"] + count["quarantined"]
        assert count["stale_ignored"] <= count["late"] <= count["applied"]
    assert sum(c["sequence_ties"] for c in counts) == whole["sequence_ties"]
    assert sum(c["inserted"] - c["deleted"] for c in counts) == len(batched.current)
    assert sum(c["opened"] - c["removed"] for c in counts) == len(batched.history)
