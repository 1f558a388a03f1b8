"""Sentences with a number: of one thing they speak as of one."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from kedro_lakehouse.cli import exclude, rebuild
from kedro_lakehouse.cli.quarantine import _replayed
from kedro_lakehouse.config.loading import Declarations
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.names import TableName
from kedro_lakehouse.operations.replay import Replayed

pytestmark = pytest.mark.unit


@pytest.mark.parametrize(
    ("replayed", "left", "said"),
    [
        (1, 1, "1 quarantined record is valid now (1 event applied, 0 there already); 1 is left."),
        (2, 0, "2 quarantined records are valid now (2 events applied, 0 there already); 0 are left."),
        (0, 1, "no quarantined record is valid now; 1 is left."),
    ],
)
def test_a_replay_tells_of_one_record_and_of_more(replayed, left, said):
    done = Replayed(table="a.b", batch=4, replayed=replayed, applied=replayed, duplicates=0, left=left)
    assert _replayed("a.b", done).endswith(said)


@pytest.mark.parametrize(("withdrawn", "said"), [(1, "1 event is excluded"), (2, "2 events are excluded")])
def test_a_withdrawal_tells_of_one_event_and_of_more(withdrawn, said, monkeypatch, capsys):
    found = SimpleNamespace(withdrawn=withdrawn, decision="d1")
    monkeypatch.setattr(rebuild, "recorded", lambda *_: found)
    monkeypatch.setattr("dataclasses.asdict", vars)
    declared = {
        TableName("a", "b"): TableConfig(source="s", keys=["id"]),
        TableName("a", "c"): TableConfig(derive={"inputs": {"x": "a.b"}, "sql": "from x"}, keys=["id"]),
        TableName("a", "d"): TableConfig(derive={"inputs": {"x": "a.c"}, "sql": "from x"}, keys=["id"]),
    }
    project = SimpleNamespace(declarations=Declarations(sources={}, tables=declared))
    exclude.exclude_batch(project, TableName("a", "b"), 7, as_json=False)
    shown = capsys.readouterr().out
    assert said in shown
    # What is derived from the table is behind until it runs too.
    assert "kedro run --namespaces=a.b,a.c,a.d" in shown
