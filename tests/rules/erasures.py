"""Erasures and rectifications of random histories by the rules alone, beside a model."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby, product
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from conformance.comparing import row_differences
from conformance.events import rules_of
from model.events import TRUNCATE, UPSERT, Event, Rules
from model.table import Table
from model.values import ranks
from property.histories import table_of
from property.judging import versions_compared

from kedro_lakehouse.changes.events import OP
from kedro_lakehouse.changes.plan import first_rows
from kedro_lakehouse.changes.subjects import SUBJECT, keys_of_subjects, rectified, without_subjects
from kedro_lakehouse.commits.small_rules import frame_of
from rules.frames import KINDS, Tables

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from property.histories import Design
    from pyspark.sql import DataFrame, SparkSession

NAMED_BY, SUBJECTS = "v", ("a", "")
"""The column that names a person, and the persons whom it is about: each is in most of the histories."""
SUBJECTS_BY: dict[str, tuple[Any, ...]] = {NAMED_BY: SUBJECTS, "k": (1,)}
"""The same by the columns that may name persons; one of them is a part of the key."""
RIGHT = {"w": "77"}
"""What is right of them."""


def differences(session: SparkSession, design: Design, number: int, seed: int) -> dict[str, list[str]]:
    """How the tables of a design differ, after an erasure and after a rectification, from those of a model.

    The model never had the subjects' events; or it had them with the right value from the beginning.
    """
    case = table_of(design, number, seed)
    events = [event for step in case.steps for event in step.events]
    rules = rules_of(case.steps[0].options, case.steps[0].columns)
    tables = Tables(session, case)
    tables.apply(events)
    held = dict(tables.held)
    found: dict[str, list[str]] = {}
    for (name, subjects), what in product(SUBJECTS_BY.items(), ("erased", "rectified")):
        right = (
            events_without(events, rules, name, subjects)
            if what == "erased"
            else [_right(e, rules) if about else e for e, about in marked(events, rules, name, subjects)]
        )
        model = Table(rules)
        model.apply(right)
        keys, left = _left(session, tables, name, what)
        tables.held = {kind: _changed(session, tables, held[kind], kind, keys, left) for kind in KINDS}
        words = []
        if what == "erased" and (still := left.where(left[name].isin(*subjects)).count()):
            words.append(f"{still} events of the change log name a subject")
        versions = versions_compared(model.history, tables.rows("history"), rules.tombstones)
        words += row_differences(model.current, tables.rows("current"), "current")
        words += row_differences(*versions, "history")
        if words or right == events:
            found[f"{design.name}, {what} by {name}"] = words[:4]
    return found


def _left(session: SparkSession, tables: Tables, name: str, what: str) -> tuple[DataFrame, DataFrame]:
    """The keys concerned, and the events that are left of them, with the truncates of the table."""
    past, contract = frame_of(session, tables.past()), tables.contract
    typed = past.schema[name].dataType.simpleString()
    subjects = session.createDataFrame([(value,) for value in SUBJECTS_BY[name]], f"{SUBJECT} {typed}")
    keys = keys_of_subjects(past, contract, name, subjects)
    truncates = past.where(past[OP] == TRUNCATE)
    of_keys = past.join(keys, list(contract.keys), "left_semi").unionByName(truncates)
    left = (
        without_subjects(of_keys, contract, name, subjects)
        if what == "erased"
        else rectified(of_keys, contract, name, subjects, RIGHT)
    )
    return keys, left.unionByName(truncates)


def _changed(
    session: SparkSession, tables: Tables, before: pa.Table, kind: Any, keys: DataFrame, left: DataFrame
) -> pa.Table:
    """A table after the change, as its commit makes it: rows of other keys stay, the others are folded."""
    folded: DataFrame = first_rows(kind, left, tables.contract, truncates=True)
    held = frame_of(session, before)
    stays = held.join(keys, list(tables.contract.keys), "left_anti").select(*held.columns)
    return pa.concat_tables([stays.toArrow(), folded.select(*held.columns).toArrow()])


def _right(event: Event, rules: Rules) -> Event:
    """An event about a subject with the right values, where it has a value at all."""
    sent = {
        name: int(text)
        for name, text in RIGHT.items()
        if event.op == UPSERT and not rules.inherits(name, event.row.get(name))
    }
    return replace(event, row={**event.row, **sent})


def events_without(
    events: Sequence[Event], rules: Rules, name: str, subjects: Collection[Any]
) -> list[Event]:
    """The events that are about none of the subjects, each once."""
    return [event for event, is_about in marked(events, rules, name, subjects) if not is_about]


def marked(
    events: Sequence[Event], rules: Rules, name: str, subjects: Collection[Any]
) -> Iterator[tuple[Event, bool]]:
    """Each event once, with whether it is about one of the subjects: a walk over each key finds it."""
    once = list({rules.identity(event): event for event in events}.values())
    truncates = [event for event in once if event.op == TRUNCATE]
    yield from ((event, False) for event in truncates)
    of_keys = sorted((e for e in once if e.op != TRUNCATE), key=lambda e: ranks(rules.key_of(e.row)))
    for _, group in groupby(of_keys, key=lambda e: ranks(rules.key_of(e.row))):
        owner: Any = None
        for event in sorted([*group, *truncates], key=lambda e: (ranks(e.order), rules.strength(e))):
            whose = event.row[name] if name in rules.keys and event.op != TRUNCATE else owner
            if event.op != UPSERT:
                owner = None
            elif not rules.inherits(name, event.row.get(name)):
                whose = owner = event.row.get(name)
            if event.op != TRUNCATE:
                yield event, whose in subjects
