"""The example examples/sports: one DMS task, five tables, and one broken file, as its reader runs it."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from typing import Any

import pytest
from click.testing import CliRunner
from harness.planned import as_planned
from harness.project import ROOT, Outcome, TemporaryProject, script

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.names import TableName

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

EXAMPLE = ROOT / "examples/sports"
BROKEN = "sports.sport_team"
TABLES = {
    "sports.mlb_data", "sports.nfl_stadium_data_upd", "sports.sport_division", "sports.sport_team",
    "sports.sporting_event",
}  # fmt: skip
HIDDEN = {"Op", "db", "schema_name", "table_name", "last_update_time"}


@dataclass
class Season:
    """A copy of the example, run after the load, after the changes, and after the repair."""

    project: TemporaryProject
    loaded: list[Any]
    changed: Outcome
    listed: dict[str, dict[str, Any]]
    repaired: list[Any]


@pytest.fixture(scope="module")
def season(tmp_path_factory: pytest.TempPathFactory) -> Season:
    project = TemporaryProject.of_example("sports", tmp_path_factory.mktemp("example") / "sports")
    plays, landing = script(EXAMPLE / "play_task.py"), project.path / "data/01_raw/dms_task"
    plays.load(landing)
    with as_planned(project):
        loaded = project.run()
    plays.changes(landing)
    with as_planned(project) as plan:
        changed = project.attempt()
    foreseen = {one.table: one.upcoming.error for one in plan.tables if one.upcoming.error}
    assert {table: error.code for table, error in foreseen.items()} == {BROKEN: "UNREADABLE_FILE"}
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project.path)
        listed = CliRunner().invoke(lakehouse, ["tables", "--json"], catch_exceptions=False)
    plays.repair(landing)
    command = changed.retry.removeprefix("kedro run --namespaces=")
    return Season(
        project=project,
        loaded=loaded,
        changed=changed,
        listed={row["table"]: row for row in json.loads(listed.output)},
        repaired=project.run(namespaces=command.split(",")),
    )


def only(season: Season, table: str, **values: Any) -> dict[str, Any]:
    (found,) = [r for r in season.project.rows(table) if values.items() <= r.items()]
    return found


def test_the_full_load_makes_every_table(season: Season) -> None:
    counts = {r.table: r.counts["inserted"] for r in season.loaded if r.stage == "current"}
    assert counts == {
        "sports.mlb_data": 2230, "sports.nfl_stadium_data_upd": 32, "sports.sport_division": 14,
        "sports.sport_team": 62, "sports.sporting_event": 1158,
    }  # fmt: skip


def test_statements_of_the_database_arrive(season: Season) -> None:
    assert only(season, "sports.mlb_data", mlb_id=506560)["bats"] == "R"
    assert only(season, "sports.sporting_event", id=11)["start_date"] == dt.date(2026, 11, 20)
    rams = only(season, "sports.nfl_stadium_data_upd", team="Los Angeles Rams", sport_location_id=31)
    assert rams["seating_capacity"] == 93703
    bats = {
        (r["bats"], r["is_current"])
        for r in season.project.rows("sports.mlb_data_history")
        if r["mlb_id"] == 506560
    }
    assert bats == {("L", False), ("R", True)}


def test_a_key_that_changed_three_times_in_one_transaction_has_its_last_row(season: Season) -> None:
    found = only(season, "sports.sport_division", short_name="Intl")
    assert found["long_name"] == "NFL International"
    assert len(season.project.rows("sports.sport_division")) == 15


def test_what_only_the_task_needs_is_in_no_table(season: Season) -> None:
    for table in TABLES:
        assert HIDDEN.isdisjoint(season.project.arrow(table).column_names), table


def test_a_broken_file_stops_its_own_table_only(season: Season) -> None:
    assert {t: getattr(e, "code", e) for t, e in season.changed.failed.items()} == {BROKEN: "UNREADABLE_FILE"}
    assert {r.table for r in season.changed.reports if r.stage == "current"} == TABLES - {BROKEN}
    assert {t: (row["batch"], row["current_batch"]) for t, row in season.listed.items()} == (
        dict.fromkeys(TABLES, (2, 2)) | {BROKEN: (1, 1)}
    )


def test_the_printed_retry_runs_the_failed_table_only(season: Season) -> None:
    assert season.changed.retry == f"kedro run --namespaces={BROKEN}"
    assert {r.table for r in season.repaired} == {BROKEN}
    assert only(season, BROKEN, id=591)["abbreviated_name"] == "LAR"


def test_an_event_lies_in_the_partition_of_its_new_date(season: Season) -> None:
    found = season.project._project.catalog.find(TableName("sports", "sporting_event"))
    assert found is not None
    november = (2026 - 1970) * 12 + 10
    wanted = {"sport_type_name": "baseball", "start_date_month": november}
    (partition,) = [p for p in found.inspect.partitions().to_pylist() if p["partition"] == wanted]
    rows = [
        r["id"]
        for r in season.project.rows("sports.sporting_event")
        if (r["sport_type_name"], r["start_date"].strftime("%Y-%m")) == ("baseball", "2026-11")
    ]
    assert rows == [11]
    assert partition["record_count"] == 1
