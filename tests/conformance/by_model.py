"""Cases through the plain model."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from model.extracts import Extracts
from model.schema import Shape, merged, refusal
from model.table import RefusedError, Table
from model.values import rank

from conformance.cases import Found
from conformance.events import rules_of
from conformance.typed import time_of

if TYPE_CHECKING:
    from model.events import Event

    from conformance.cases import SnapshotCase, Step, TableCase
    from conformance.events import Batches


def run_events(case: TableCase) -> Found:
    """What the model's table holds after a case's batches."""
    first = case.steps[0]
    table = Table(rules_of(first.options, first.columns))
    found, shape = Found(), None
    for step in case.steps:
        now = _shape(step)
        code = refusal(shape, now)
        if code is not None:
            found.errors.append(code)
            continue
        shape = now if shape is None else merged(shape, now)
        held = dict.fromkeys([*table.rules.columns, *step.columns])
        table.rules = replace(rules_of(step.options, tuple(held)))
        fraction = step.options.max_invalid_fraction
        table.max_invalid_fraction = 1.0 if fraction is None else fraction
        try:
            counts = table.apply([_renamed(e, dict(step.options.rename)) for e in step.events])
        except RefusedError as error:
            found.errors.append(error.code)
            continue
        if step.events:
            orders = [e.order for e in step.events]
            ends = {"min_order": min(orders, key=_ranks), "max_order": max(orders, key=_ranks)}
            found.batches.append(counts | ends)
    found.current, found.history = table.current, table.history
    found.reasons = [reason for _, reason in table.quarantined]
    found.types = dict(shape.types) if shape else {}
    return found


def _renamed(event: Event, names: dict[str, str]) -> Event:
    return replace(event, row={names.get(n, n): v for n, v in event.row.items()}) if names else event


def _ranks(order: tuple[object, ...]) -> tuple[object, ...]:
    return tuple(rank(part) for part in order)


def _shape(step: Step) -> Shape:
    names = dict(step.options.rename)
    types = {names.get(n, n): t for n, t in step.kinds.columns.items()}
    return Shape(keys=step.options.keys, track=step.options.track, types=types, order=step.kinds.order)


def rebatched(case: TableCase, batches: Batches) -> TableCase:
    """The same table with its events in other batches."""
    return replace(case, steps=[replace(case.steps[0], events=events) for events in batches])


def run_snapshots(case: SnapshotCase) -> Found:
    """What the model's table holds after a case's extracts."""
    options = case.options
    table = Table(rules_of(options, case.columns))
    initial = options.initial_valid_from or "event"
    extracts = Extracts(
        table=table, valid_from=options.valid_from, updated_at=options.updated_at,
        initial_valid_from=initial if initial in ("event", "epoch") else time_of(initial),
        hard_deletes=options.hard_deletes or "close", delete_scope=options.delete_scope,
        max_delete_fraction=options.max_delete_fraction, allow_empty=options.allow_empty,
    )  # fmt: skip
    found = Found()
    for snapshot in case.snapshots:
        try:
            extracts.apply(snapshot.at, snapshot.name, snapshot.rows)
        except RefusedError as error:
            found.errors.append(error.code)
    found.current, found.history = table.current, table.history
    found.reasons = [reason for _, reason in table.quarantined]
    found.batches = [dict(extracts.counts)]
    found.batches[0].setdefault("changed_without_newer_timestamp", 0)
    return found
