"""What commands print on a terminal of 80 columns: each row on one line."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

from kedro_lakehouse.cli import runs, search, show, snapshots, tables
from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.column_search.results import ColumnHit

pytestmark = pytest.mark.unit

WIDTH = 80
TIME = datetime(2026, 11, 25, 13, 5, 33, tzinfo=UTC)
STATUS = {
    "table": "dms_sample.sporting_event_ticket",
    "state": "failing",
    "words": "failing since 2026-11-25 13:43",
    "rows": 34137,
    "history_rows": 35124,
    "batch": 4,
    "current_batch": 4,
    "history_batch": 3,
    "lag": 1,
    "last_commit": TIME,
    "quarantined": 21,
}
RUN = {
    "run_id": "20261125T135134_c79ce925",
    "pipeline": "__default__",
    "env": "local",
    "status": "succeeded",
    "started_at": TIME,
    "seconds": 17.0,
    "tables": ["shop.item"],
    "failed": [{"table": "dms_sample.person", "code": "MISSING_COLUMN", "message": ""}],
}


@pytest.fixture(params=[WIDTH, 200])
def width(request, monkeypatch):
    monkeypatch.setattr(show, "terminal_width", lambda: request.param)
    monkeypatch.setattr(search, "terminal_width", lambda: request.param)
    return request.param


@pytest.mark.parametrize(("module", "row"), [(tables, STATUS), (runs, RUN)])
def test_a_row_takes_one_line_and_a_wide_terminal_shows_all(module, row, width, capsys):
    cells, narrow = module._cells, module._narrow
    show.print_rows([row] * 3, as_json=False, cells=cells, narrow=narrow, whole=("table", "run"))
    lines = capsys.readouterr().out.splitlines()
    heads = [line for line in lines if not line.startswith(("dms_sample", "2026"))]
    assert len(lines) - len(heads) == 3
    assert len(heads) <= 2
    assert max(map(len, lines)) <= width
    assert ("13:05:33" in lines[-1]) == (width > WIDTH)


def test_plugins_take_one_line_each(width):
    lines = CliRunner().invoke(lakehouse, ["plugins"]).stdout.splitlines()
    assert all(len(line.split()) == 3 for line in lines)
    assert max(map(len, lines)) <= width
    assert any("iceberg" in line and "IcebergFormat" in line for line in lines)


def test_hits_take_one_line_each(width, capsys):
    hit = ColumnHit(
        column_id="dms_sample.sporting_event_ticket.ticket_price",
        score=0.5,
        kind="timestamp",
        namespace="dms_sample",
        table="sporting_event_ticket",
        column="ticket_price",
        location="/a/long/place/of/the/lakehouse/warehouse/dms_sample/sporting_event_ticket",
        sample=("2026-11-25 13:05:33", "2026-11-26 13:05:33"),
        formats=(),
        personal=False,
        why={},
        shared=(),
        rows=9,
        null_fraction=0.0,
        distinct=9,
        source="lake",
    )
    search._show_columns([hit, hit], explain=False, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 3
    assert max(map(len, lines)) <= width


@pytest.mark.parametrize(("batches", "told"), [([], ""), ([6], "6"), ([6, 7, 8], "6 to 8")])
def test_a_snapshot_tells_every_batch_whose_state_it_is(batches, told):
    one = {
        "snapshot_id": 1,
        "committed_at": TIME,
        "operation": "append",
        "rows": 1,
        "names": [],
        "on_main": True,
    }
    found = snapshots._with_batches(one, batches)
    assert found["batch"] == (batches[-1] if batches else None)
    assert snapshots._cells(found)["batch"] == told
