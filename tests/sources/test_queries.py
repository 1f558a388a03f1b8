"""Queries of the library run apart, end when they must, and leave nothing but their results."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from harness.served import ServedLake, pulled_id, served_lake

import kedro_lakehouse.query as library
from kedro_lakehouse.errors import ConfigurationError
from kedro_lakehouse.project import _Active
from kedro_lakehouse.query.errors import (
    QueryError,
    QueryNotFoundError,
    QueryOutputError,
    SnapshotNotFoundError,
)
from kedro_lakehouse.query.library import Queries

pytestmark = pytest.mark.sources

LONG = "select count(*) from range(100000000000) a, range(1000) b"


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> ServedLake:
    return served_lake(tmp_path_factory.mktemp("queried"), pulls=2, query={"memory": "512 MiB"})


@pytest.fixture
def active(lake: ServedLake, monkeypatch: pytest.MonkeyPatch) -> ServedLake:
    monkeypatch.setattr(_Active, "project", lake.project)
    return lake


def left_of(lake: ServedLake, query: str) -> list[str]:
    """The files of a query that has ended, but for its state."""
    return [file.name for file in lake.results.rglob(f"*{query}*") if file.name != f"{query}.json"]


def test_a_query_is_started_looked_at_and_read(active: ServedLake) -> None:
    number = library.start_query("select id from shop.order order by id", format="csv")
    assert library.get_query(number).state in ("running", "done")
    done = library.run("select id from shop.order order by id", "csv", "weekly/orders", "planner")
    assert (done.state, done.rows, done.role) == ("done", 3, "planner")
    assert done.location == str(active.results / "planner/weekly/orders.csv")
    with Path(done.location).open(encoding="utf-8", newline="") as file:
        assert list(csv.DictReader(file)) == [{"id": "0"}, {"id": "1"}, {"id": "2"}]
    (read,) = done.tables
    table = active.table("shop.order")
    files = [task.file for task in table.scan().plan_files()]
    assert (read.snapshot_id, read.files) == (table.current_snapshot().snapshot_id, len(files))
    assert read.bytes == sum(file.file_size_in_bytes for file in files)


def test_two_of_many_snapshots_are_a_part_of_the_bytes(active: ServedLake) -> None:
    text = "select count(*) from devices.shipment s join devices.forecast f using (id)"
    both = {"devices.shipment": pulled_id(1), "devices.forecast": pulled_id(2)}
    part, whole = library.run(text, snapshots=both), library.run(text)
    assert (part.state, whole.state) == ("done", "done"), (part.error, whole.error)
    assert [one.snapshot for one in part.tables] == list(both.values())
    for less, more in zip(part.tables, whole.tables, strict=True):
        assert (less.files, more.files) == (1, 2)
        assert 0 < less.bytes < more.bytes


@pytest.mark.parametrize(
    ("words", "error"),
    [
        ({"format": "xlsx"}, QueryError),
        ({"output": "../x"}, QueryOutputError),
        ({"role": "nobdy"}, ConfigurationError),
        ({"snapshots": {"shop.order": "7"}}, SnapshotNotFoundError),
        ({"snapshots": {"shop.odrer": "7"}}, QueryError),
        ({"snapshots": {"shop.order": "7"}, "role": "analyst"}, QueryError),
    ],
)
def test_what_cannot_be_started_is_refused_at_once(
    active: ServedLake, words: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        library.start_query("select 1", **words)


def test_an_unknown_query_is_not_found(active: ServedLake) -> None:
    for number in ("0" * 32, "../x", ""):
        with pytest.raises(QueryNotFoundError):
            library.get_query(number)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("select list(r.range) from range(1000000000) r", "QUERY_MEMORY"),
        ("select 1; select 2", "QUERY"),
        ("select content from read_text('/etc/passwd')", "QUERY"),
        ("select interval 1 day", "QUERY"),
    ],
)
def test_a_query_that_cannot_end_well_leaves_its_state_alone(
    active: ServedLake, text: str, code: str
) -> None:
    ended = library.run(text)
    assert (ended.state, (ended.error or {})["code"]) == ("failed", code), ended
    assert left_of(active, ended.id) == []


def test_a_query_that_takes_too_long_is_ended_within_two_seconds(tmp_path: Path) -> None:
    lake = served_lake(tmp_path, pulls=1, query={"time": "2 s"})
    queries, before = Queries(lake.project), time.monotonic()
    ended = queries.wait(queries.start(LONG))
    assert (ended.state, (ended.error or {})["code"]) == ("failed", "QUERY_TOO_LONG"), ended
    assert time.monotonic() - before < 2 + 2
    assert left_of(lake, ended.id) == []


def test_a_query_is_cancelled_from_another_process(active: ServedLake) -> None:
    number = library.start_query(LONG)
    other = Queries(active.project)  # knows of the query by its files alone
    asked = time.monotonic()
    assert other.cancel(number).state == "cancelled"
    assert time.monotonic() - asked < 2
    assert left_of(active, number) == []
    assert library.cancel(number).state == "cancelled"  # nothing more happens


START = """
import pickle, sys
from pathlib import Path
from harness.served import served_lake
from kedro_lakehouse.query.library import Queries
lake = served_lake(Path(sys.argv[1]), pulls=1)
number = Queries(lake.project).start(sys.argv[2])
print(number, flush=True)
sys.stdin.read()
"""


def test_a_query_does_not_outlive_the_process_that_started_it(tmp_path: Path) -> None:
    begun = subprocess.Popen(
        [sys.executable, "-c", START, str(tmp_path / "other"), LONG],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    assert begun.stdout is not None
    number = begun.stdout.readline().strip()
    begun.send_signal(signal.SIGKILL)
    begun.communicate()
    lake = served_lake(tmp_path / "mine", pulls=1)
    queries = Queries(lake.project)
    queries.folder = type(queries.folder)(str(tmp_path / "other/results"))
    until = time.monotonic() + 10
    while not (state := queries.get(number)).has_ended and time.monotonic() < until:
        pass
    assert (state.state, (state.error or {})["code"]) == ("failed", "QUERY_LOST")
    assert [file.name for file in (tmp_path / "other/results").rglob("*") if file.is_file()] == [
        f"{number}.json"
    ]


def test_states_are_files_for_their_owner_alone(active: ServedLake) -> None:
    done = library.run("select 1 as a", format="json")
    file = active.results / f"_queries/{done.id}.json"
    assert file.stat().st_mode & 0o077 == 0
    held = json.loads(file.read_text(encoding="utf-8"))
    assert (held["state"], held["rows"], held["bytes"]) == ("done", 1, len('{"a":1}\n'))


def test_results_go_some_time_after_their_query_has_ended(tmp_path: Path) -> None:
    lake = served_lake(tmp_path, pulls=1, query={"keep": "1 h", "memory": "512 MiB"})
    queries = Queries(lake.project)
    old, young, running = (queries.start(text, "csv") for text in ("select 1", "select 2", LONG))
    ended = {number: queries.wait(number) for number in (old, young)}
    two_hours_ago = time.time() - 2 * 3600
    for number in (old, running):
        os.utime(lake.results / f"_queries/{number}.json", (two_hours_ago, two_hours_ago))
    Queries(lake.project).start("select 3")
    with pytest.raises(QueryNotFoundError):
        queries.get(old)
    assert not Path(ended[old].location).exists()
    assert Path(ended[young].location).is_file()
    assert queries.cancel(running).state == "cancelled"  # what runs is not removed
