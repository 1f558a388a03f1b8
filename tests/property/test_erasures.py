"""Persons are erased from the tables of all designs: these are the model's that never had them.

Each random history is about persons of its own, three of whom it may name. Its keys move between them, events
come late, twice, and in one order; whose an event is, the model's walk over each key tells.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from conformance.by_product import plain_row
from conformance.comparing import row_differences
from harness.erasures import KEY
from harness.project import FORMAT
from harness.soak import only_in_soak
from model.table import Table
from rules.erasures import NAMED_BY, events_without

from kedro_lakehouse.erasure.erase import erase
from kedro_lakehouse.project import Project, activate
from property.histories import DESIGNS, table_of
from property.judging import Trial, versions_compared
from property.seeds import SWITCH, the_seed

if TYPE_CHECKING:
    from pathlib import Path

    from conformance.cases import TableCase

pytestmark = [pytest.mark.property, pytest.mark.spark, pytest.mark.slow, only_in_soak]

HISTORIES = 26
"""Of each design; of two persons of each history all is erased: 520 persons in ten tables."""
FORMATS: list[Any] = [FORMAT]
if FORMAT == "iceberg":
    FORMATS.append(pytest.param("delta", marks=pytest.mark.delta))


def person(text: object, history: int) -> object:
    """A person of a history, by the text that stands for one in it: a name that nothing else contains."""
    return f"person {text or 'c'} of history {history}." if text in ("a", "b", "") else text


def with_persons(case: TableCase) -> TableCase:
    """The same histories, each about persons of its own."""
    steps = [
        replace(
            step,
            events=[
                replace(e, row={**e.row, NAMED_BY: person(e.row[NAMED_BY], e.row["h"])})
                if NAMED_BY in e.row
                else e
                for e in step.events
            ],
        )
        for step in case.steps
    ]
    return replace(case, steps=steps)


@pytest.mark.parametrize("table_format", FORMATS)
def test_tables_are_those_of_a_lake_that_never_had_the_persons(tmp_path: Path, table_format: str) -> None:
    seed = the_seed()
    cases = [with_persons(table_of(design, HISTORIES, seed)) for design in DESIGNS]
    trial = Trial(tmp_path / "project", cases, table_format, subject=NAMED_BY, after_erasure="accept")
    trial.bench.project.write("credentials", KEY)
    assert trial.run() == {}
    persons = sorted({str(person(text, h)) for text in ("a", "") for h in range(HISTORIES)})
    project = trial.bench.project
    evidence = erase(activate(Project.load(str(project.path / "conf"), None)), persons)
    found = {}
    for case in cases:
        model = Table(trial.models[case.id].rules)
        events = [event for step in case.steps for event in step.events]
        kept = events_without(events, model.rules, NAMED_BY, persons)
        assert len(kept) < len(events)
        model.apply(kept)
        rows = [
            [plain_row(r) for r in project.rows(f"cases.{case.id}{suffix}")] for suffix in ("", "_history")
        ]
        words = row_differences(model.current, rows[0], "current")
        words += row_differences(
            *versions_compared(model.history, rows[1], model.rules.tombstones), "history"
        )
        if words:
            found[case.id] = words[:4]
    assert found == {}, f"again with {SWITCH}={seed}"
    lakehouse = str(project.path / "lakehouse")
    assert [one for one in evidence.found if one["file"].startswith(lakehouse)] == []
