"""A `rename` that is declared after the table exists: columns get new names, and no row is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from harness.project import Outcome, TemporaryProject, write_text

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, pytest.mark.slow]

SOURCES: dict[str, Any] = {
    name: {
        "type": "extract", "path": "${globals:landing}/all", "file_format": "csv",
        "extract_time": {"from": "name", "pattern": "%Y-%m-%d"},
    }
    for name in ("ice", "del")
}  # fmt: skip
BEFORE: dict[str, Any] = {
    "ice.company": {
        "keys": ["id"],
        "history": {"track": {"include": ["Company", "city"]}},
        "ignore_null": ["city"],
    },
    "ice.both": {"keys": ["id"]},
}
RENAMED = {"rename": {"Company": "name", "id": "number"}, "keys": ["number"]}
AFTER: dict[str, Any] = {
    "ice.company": RENAMED | {"history": {"track": {"include": ["name", "city"]}}, "ignore_null": ["city"]},
    "ice.both": {"keys": ["id"], "rename": {"Company": "name", "city": "name"}},
}
DELTA = {"format": "delta", "source": "del"}


def declared(tables: dict[str, Any]) -> dict[str, Any]:
    found = {name: {"source": "ice"} | table for name, table in tables.items()}
    return found | {"del.company": found["ice.company"] | DELTA}


@dataclass
class Runs:
    project: TemporaryProject
    first: Outcome
    second: Outcome
    third: Outcome
    before: dict[str, Any]


def land(project: TemporaryProject, day: int, *lines: str) -> None:
    for table in ("company", "both"):
        text = "\n".join(["id,Company,city", *lines]) + "\n"
        write_text(project.landing / "all" / table / f"2026-01-{day:02}.csv", text)


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Runs:
    path: Path = tmp_path_factory.mktemp("renames") / "project"
    project = TemporaryProject.make(path, SOURCES, declared(BEFORE))
    land(project, 1, "1,Acme,Rome", "2,Bolt,Oslo")
    first = project.attempt()
    before = {t: project.state(t) for t in ("ice.company_history", "del.company_history")}
    project.declare(SOURCES, declared(AFTER))
    land(project, 2, "1,Acme,Rome", "2,Bolt Inc,Oslo")
    second = project.attempt()
    return Runs(project, first, second, project.attempt(), before)


@pytest.mark.parametrize("table", ["ice.company", "del.company"])
def test_current_history_and_change_log_get_the_new_names(runs: Runs, table: str) -> None:
    assert runs.first.failed == {}
    assert table not in runs.second.failed
    for role in ("", "_history", "_changes"):
        names = runs.project.state(f"{table}{role}").columns
        assert {"number", "name"} <= names.keys()
        assert not {"id", "Company"} & names.keys()
    rows = {r["number"]: (r["name"], r["city"]) for r in runs.project.rows(table)}
    assert rows == {"1": ("Acme", "Rome"), "2": ("Bolt Inc", "Oslo")}
    assert {r["name"] for r in runs.project.rows(f"{table}_changes")} == {"Acme", "Bolt", "Bolt Inc"}


@pytest.mark.parametrize("table", ["ice.company", "del.company"])
def test_no_version_begins_because_of_a_name(runs: Runs, table: str) -> None:
    versions = sorted(
        (r["number"], r["name"], r["is_current"]) for r in runs.project.rows(f"{table}_history")
    )
    assert versions == [("1", "Acme", True), ("2", "Bolt", False), ("2", "Bolt Inc", True)]
    (counts,) = runs.second.counts(table, "history")
    assert (counts["opened"], counts["closed"], counts["rewritten"]) == (1, 1, 0)


def test_the_next_run_finds_nothing_to_do(runs: Runs) -> None:
    assert set(runs.third.failed) == {"ice.both"}
    assert runs.third.reports == []


def test_two_columns_do_not_become_one(runs: Runs) -> None:
    error = runs.second.failed["ice.both"]
    assert "both would be 'name'" in str(error)
    assert "kedro lakehouse rebuild ice.both --from-landing" in str(error)
    assert {"Company", "city"} <= runs.project.state("ice.both").columns.keys()
