"""Erasures of random histories by the rules alone, beside a model that never had the subject's events."""

from __future__ import annotations

from itertools import groupby
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
from kedro_lakehouse.changes.subjects import SUBJECT, keys_of_subjects, without_subjects
from kedro_lakehouse.commits.small_rules import frame_of
from rules.frames import KINDS, Tables

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from property.histories import Design
    from pyspark.sql import DataFrame, SparkSession

NAMED_BY, SUBJECTS = "v", ("a", "")
"""The column that names a person, and the persons who are erased: each is in most of the histories."""


def differences(session: SparkSession, design: Design, number: int, seed: int) -> dict[str, list[str]]:
    """How the tables of a design differ, after an erasure, from those that never had the subjects' events."""
    case = table_of(design, number, seed)
    tables = Tables(session, case)
    events = [event for step in case.steps for event in step.events]
    tables.apply(events)
    rules = rules_of(case.steps[0].options, case.steps[0].columns)
    model = Table(rules)
    model.apply(list(others(events, rules)))
    for kind in KINDS:
        tables.held[kind] = _erased(session, tables, kind)
    versions = versions_compared(model.history, tables.rows("history"), rules.tombstones)
    words = row_differences(model.current, tables.rows("current"), "current")
    words += row_differences(*versions, "history")
    left = sum(e.op == UPSERT and e.row.get(NAMED_BY) in SUBJECTS for e in others(events, rules))
    return {design.name: words[:4]} if words or left else {}


def _erased(session: SparkSession, tables: Tables, kind: Any) -> pa.Table:
    """A table after the erasure, as its commit makes it: rows of other keys stay, the others are folded."""
    past, contract = frame_of(session, tables.past()), tables.contract
    subjects = session.createDataFrame([(value,) for value in SUBJECTS], f"{SUBJECT} string")
    keys = keys_of_subjects(past, contract, NAMED_BY, subjects)
    truncates = past.where(past[OP] == TRUNCATE)
    of_keys = past.join(keys, list(contract.keys), "left_semi").unionByName(truncates)
    kept = without_subjects(of_keys, contract, NAMED_BY, subjects).unionByName(truncates)
    folded: DataFrame = first_rows(kind, kept, contract, truncates=True)
    held = frame_of(session, tables.held[kind])
    stays = held.join(keys, list(contract.keys), "left_anti").select(*held.columns)
    return pa.concat_tables([stays.toArrow(), folded.select(*held.columns).toArrow()])


def others(events: Sequence[Event], rules: Rules) -> Iterator[Event]:
    """The events that are about none of the subjects, told by a walk over each key."""
    once = list({rules.identity(event): event for event in events}.values())
    truncates = [event for event in once if event.op == TRUNCATE]
    yield from truncates
    of_keys = sorted((e for e in once if e.op != TRUNCATE), key=lambda e: ranks(rules.key_of(e.row)))
    for _, group in groupby(of_keys, key=lambda e: ranks(rules.key_of(e.row))):
        owner: Any = None
        for event in sorted([*group, *truncates], key=lambda e: (ranks(e.order), rules.strength(e))):
            if event.op != UPSERT:
                whose, owner = owner, None
            else:
                value = event.row.get(NAMED_BY)
                owner = owner if rules.inherits(NAMED_BY, value) else value
                whose = owner
            if event.op != TRUNCATE and whose not in SUBJECTS:
                yield event
