"""Requests to be erased: how a file gives them, who is due first, and what is known of each."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import click
import pytest
from harness.catalogs import embedded_catalog

from kedro_lakehouse.cli.subjects import requests_of
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.erasure.requests import Request, known_erasures, unfinished_of
from kedro_lakehouse.ops.store import ERASURES, OpsStore
from kedro_lakehouse.pipelines.erasure import plan_requests

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.unit

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


def test_a_file_of_requests_names_persons_and_times(tmp_path: Path) -> None:
    file = tmp_path / "requests.csv"
    file.write_text("\ufeffsubject,note,due\n7,a,2026-12-31\n 8 ,b,\n,c,\n9,d,2026-12-31T12:00:00+02:00\n")
    assert requests_of(str(file)) == [
        Request(subject="7", due=datetime(2026, 12, 31, tzinfo=UTC)),
        Request(subject="8"),
        Request(subject="9", due=datetime(2026, 12, 31, 10, tzinfo=UTC)),
    ]


@pytest.mark.parametrize(
    ("text", "says"), [("person\n7\n", "no column `subject`"), ("subject,due\n7,soon\n", "line 2")]
)
def test_a_file_that_is_no_list_of_requests_is_refused(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "requests.csv"
    file.write_text(text)
    with pytest.raises(click.BadParameter, match=says):
        requests_of(str(file))


def test_each_person_is_asked_for_once_and_who_is_due_first_comes_first() -> None:
    asked = [Request(subject="a"), Request.at("b", 90.0), Request.at("a", 100.0), Request.at("b", 80.0)]
    assert plan_requests(asked) == [Request.at("b", 80.0), Request.at("a", 100.0)]


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({}, "a column of its own"),
        ({"subject": {"column": "x", "through": "a.b"}}, "a column of its own"),
        ({"subject": "x", "current": False, "history": True}, "none is kept"),
    ],
)
def test_a_table_of_requests_names_its_persons(more: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        TableConfig.model_validate({"source": "s", "keys": ["id"], "erasure_requests": True} | more)


@pytest.fixture
def ops(tmp_path: Path) -> OpsStore:
    return OpsStore(embedded_catalog(tmp_path, "ops"))


def record(ops: OpsStore, erasure: str, day: int, status: str, *subjects: str, **facts: Any) -> None:
    common = {"erasure": erasure, "run_id": "r", "recorded_at": BEGAN + timedelta(days=day)}
    if status == "begun":
        rows = [common | {"status": status, "table": "a.b", "subject": s} | facts for s in subjects]
    else:
        evidence = json.dumps({"subjects": subjects, "tables": ["a.b", "a.c"]})
        rows = [common | {"status": status, "evidence": evidence, "pending": []} | facts]
    ops.append(ERASURES, rows)


def test_what_is_known_of_erasures(ops: OpsStore) -> None:
    record(ops, "one", 0, "begun", "x", due=BEGAN + timedelta(days=5))
    record(ops, "two", 1, "begun", "y", "z", due=BEGAN + timedelta(days=5))
    record(ops, "two", 9, "done", "y", "z", rows=7)
    two, one = known_erasures(ops)
    assert (one.status, one.subjects, one.tables, one.ended_at) == ("begun", 1, ("a.b",), None)
    assert (two.status, two.subjects, two.rows, two.tables) == ("done", 2, 7, ("a.b", "a.c"))
    assert two.is_late(BEGAN)  # it was done on the ninth day
    assert not one.is_late(BEGAN + timedelta(days=4))
    assert one.is_late(BEGAN + timedelta(days=6))
    assert unfinished_of(ops, "a.b") == {"x"}
    assert unfinished_of(ops, "a.c") == set()


def test_an_interrupted_erasure_that_was_repeated_is_listed_once(ops: OpsStore) -> None:
    record(ops, "one", 0, "begun", "x")
    record(ops, "two", 1, "done", "x")
    assert [known.erasure for known in known_erasures(ops)] == ["two"]
    assert unfinished_of(ops, "a.b") == set()
