"""The table at the end of a run: one line for each table, on a narrow terminal too."""

from types import SimpleNamespace

import pytest

from kedro_lakehouse.monitoring.summary import print_summary

pytestmark = pytest.mark.unit

NAME = "dms_sample.sporting_event_ticket"
COUNTS = {
    "applied": 35_124,
    "quarantined": 0,
    "inserted": 34_137,
    "updated": 0,
    "deleted": 12,
    "opened": 35_124,
}


@pytest.mark.parametrize(("columns", "told"), [("80", "+34,137 -12"), ("120", "34,137 / 0 / 12")])
def test_a_table_has_one_line(columns, told, monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", columns)
    report = SimpleNamespace(table=NAME, stage="current", batch=1, counts=COUNTS)
    project = SimpleNamespace(
        reports=[report], run_id="run1", declarations=SimpleNamespace(tables={NAME: None})
    )
    print_summary(project, None, [NAME], [])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if NAME in line]
    assert told in line
    assert "35,124" in line
    assert "done" in line


def test_a_target_that_was_folded_again_says_so(capsys):
    folded = {"folded again": 17_378}
    reports = [SimpleNamespace(table=NAME, stage="current", batch=5, counts=folded)]
    reports.append(SimpleNamespace(table=NAME, stage="history", batch=5, counts={"opened": 2}))
    project = SimpleNamespace(
        reports=reports, run_id="run1", declarations=SimpleNamespace(tables={NAME: None})
    )
    print_summary(project, None, [NAME], [])
    (line,) = [line for line in capsys.readouterr().out.splitlines() if NAME in line]
    assert "17,378 folded again" in line
    assert "2 / 0 / 0" in line
