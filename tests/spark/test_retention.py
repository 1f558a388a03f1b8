"""Single events are kept for a time only; the tables are what they would be with all of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from harness.project import Outcome, TemporaryProject, write_parquet
from rules.trimming import day

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = [pytest.mark.spark, pytest.mark.slow]

SOURCES: dict[str, Any] = {
    "shop": {
        "type": "dms", "path": "${globals:landing}", "sequence_column": "seq", "timestamp_column": "ts",
        "max_files": 1,
    },
}  # fmt: skip
TABLES: dict[str, Any] = {
    "shop.kept": {"changes_retention": "10 days"},
    "shop.versions": {"changes_retention": "10 days", "history": True},
    "shop.whole": {"history": True},
}
KINDS = {"Op": pa.string(), "id": pa.int64(), "v": pa.string(), "seq": pa.string(), "ts": pa.timestamp("us")}


def land(folder: Path, number: int, *events: tuple[str, int, str | None, int]) -> None:
    """Land events of which each took effect on the day of its sequence."""
    rows = [{"Op": op, "id": i, "v": v, "seq": str(seq), "ts": day(seq)} for op, i, v, seq in events]
    write_parquet(folder / f"2026010{number}-000000000.parquet", rows, KINDS)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    tables = {name: {"source": "shop", "keys": ["id"]} | table for name, table in TABLES.items()}
    made = TemporaryProject.make(tmp_path_factory.mktemp("retention") / "project", SOURCES, tables)
    for name in ("kept", "versions", "whole"):
        folder = made.landing / name
        land(
            folder,
            1,
            ("I", 1, "a", 1),
            ("U", 1, "a", 2),
            ("I", 2, "x", 3),
            ("D", 2, None, 4),
            ("I", 3, "p", 5),
            ("I", 4, "m", 1),
            ("U", 4, "n", 3),
        )
        land(
            folder,
            2,
            ("U", 1, "b", 6),
            ("U", 1, "b", 7),
            ("I", 2, "y", 8),
            ("U", 3, "q", 19),
            ("U", 3, "r", 20),
            ("U", 4, "o", 20),
        )
    made.run()
    return made


def stored(project: TemporaryProject, table: str, columns: str = "*") -> list[Any]:
    return sorted(repr(sorted(r.items())) for r in project.rows(table, columns))


@pytest.fixture(scope="module")
def before(project: TemporaryProject) -> dict[str, Any]:
    tables = ("kept", "versions", "versions_history", "whole_changes")
    return {t: stored(project, f"shop.{t}") for t in tables} | {
        "bookmark": project.state("shop.versions_changes").bookmark
    }


@pytest.fixture(scope="module")
def trimmed(project: TemporaryProject, before: dict[str, Any]) -> Outcome:
    return project.attempt("maintenance")


@pytest.fixture(scope="module")
def later(project: TemporaryProject, trimmed: Outcome) -> Outcome:
    for name in ("kept", "versions", "whole"):
        # Before the horizon (day 10), in order, and late but after the horizon.
        late = [("U", 4, "late", 15), *([("U", 3, "late", 18)] if name == "kept" else [])]
        land(project.landing / name, 3, ("U", 1, "early", 5), ("U", 1, "c", 21), ("D", 2, None, 22), *late)
    return project.attempt()


def test_each_key_keeps_one_event_from_before_the_horizon(project, trimmed):
    assert trimmed.failed == {}
    for table in ("kept", "versions"):
        events = project.rows(f"shop.{table}_changes")
        found = sorted((r["id"], r["_op"], r["v"], int(r["_order"]["seq"]), r["_time"]) for r in events)
        assert found == [
            (1, "upsert", "b", 7, day(7)),
            (2, "upsert", "y", 8, day(8)),
            (3, "upsert", "p", 5, day(5)),
            (3, "upsert", "q", 19, day(19)),
            (3, "upsert", "r", 20, day(20)),
            (4, "upsert", "n", 3, day(3)),
            (4, "upsert", "o", 20, day(20)),
        ]


def test_the_event_of_a_run_says_what_opened_it(project, trimmed):
    rows = {r["id"]: r for r in project.rows("shop.versions_changes") if r["_opened_time"] is not None}
    assert {i: (int(r["_opened_order"]["seq"]), r["_opened_time"]) for i, r in rows.items()} == {
        1: (6, day(6))
    }


def test_tables_and_bookmarks_stay_and_the_horizon_is_published(project, before, trimmed):
    for table in ("kept", "versions", "versions_history", "whole_changes"):
        assert stored(project, f"shop.{table}") == before[table]
    state = project.state("shop.versions_changes")
    assert state.bookmark == before["bookmark"]
    assert state.branches == []
    assert state.properties["kedro_lakehouse.horizon"] == "2026-01-11T00:00:00+00:00"


def test_a_record_that_is_trimmed_stays_as_it_is(project, trimmed, later):
    state = project.state("shop.kept_changes")
    assert project.attempt("maintenance").failed == {}
    assert project.attempt("maintenance").failed == {}
    assert project.state("shop.kept_changes").rows <= state.rows


def test_an_event_from_before_the_horizon_is_too_late(project, later):
    assert later.failed == {}
    for table in ("kept", "versions"):
        assert [r["_reasons"] for r in project.rows(f"shop.{table}_quarantine")] == [["too_late"]]
    assert project.rows("shop.whole_quarantine") == []


def test_later_events_lead_to_the_tables_of_a_whole_record(project, later):
    columns = "id,v,_order"
    assert stored(project, "shop.versions", columns) == stored(project, "shop.whole", columns)
    assert stored(project, "shop.kept", columns) == stored(project, "shop.whole", columns)
    ends = "id,v,_order_from,_order_to,_order_last,effective_from,effective_to,is_current"
    kept = [r for r in stored(project, "shop.whole_history", ends) if "'early'" not in r]
    # The too late event split no run of the trimmed table.
    assert [r for r in kept if "'id', 1" not in r] == [
        r for r in stored(project, "shop.versions_history", ends) if "'id', 1" not in r
    ]
    ones = sorted(
        (int(r["_order_from"]["seq"]), r["v"]) for r in project.rows("shop.versions_history") if r["id"] == 1
    )
    assert ones == [(1, "a"), (6, "b"), (21, "c")]
