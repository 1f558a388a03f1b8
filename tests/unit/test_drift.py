"""What a declaration may not change under a table that is there."""

from __future__ import annotations

import dataclasses

import pytest

from kedro_lakehouse.changes.contract import TableContract
from kedro_lakehouse.commits.drift import made_for, refuse_drift
from kedro_lakehouse.errors import FoldRuleDriftError, TrackHistoryDriftError
from kedro_lakehouse.formats.base import TableState
from kedro_lakehouse.names import TableName

pytestmark = pytest.mark.unit

MADE = TableContract(table="shop.person", keys=("id",))
NAME = TableName("shop", "person")


def state(kind):
    found = {f.name: None for f in dataclasses.fields(TableState)}
    return TableState(**found | {"properties": made_for(MADE, kind), "columns": {}})


@pytest.mark.parametrize("kind", ["current", "history"])
@pytest.mark.parametrize(
    "changed",
    [{"on_tie": "upsert_wins"}, {"ignore_null": ("name",)}, {"ignore_null": "*"}, {"unset_marker": "?"}],
)
def test_other_rules_of_folding_are_refused(kind, changed):
    with pytest.raises(FoldRuleDriftError, match=r"shop\.person.*rebuild shop\.person"):
        refuse_drift(NAME, state(kind), dataclasses.replace(MADE, **changed), {}, kind)


def test_refusing_ties_folds_as_before():
    refuse_drift(NAME, state("current"), dataclasses.replace(MADE, on_tie="fail"), {}, "current")


def test_the_record_holds_events_whatever_folds_them():
    refuse_drift(NAME, state(None), dataclasses.replace(MADE, on_tie="upsert_wins"), {})


def test_other_tracked_columns_are_refused_for_a_history_alone():
    changed = dataclasses.replace(MADE, track_include=("name",))
    refuse_drift(NAME, state("current"), changed, {}, "current")
    with pytest.raises(TrackHistoryDriftError):
        refuse_drift(NAME, state("history"), changed, {}, "history")
