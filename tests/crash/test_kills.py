"""SIGKILL at every phase of the real save path, and of a real ``kedro run`` at random times."""

from __future__ import annotations

import datetime as dt
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from crash.shop import FEW, KILLS, SOURCES, no_lease
from harness.kills import kill_at, scratch
from harness.oracle import differences_from_expected
from harness.project import DATA, FORMAT, ROOT, TemporaryProject, write_parquet

from kedro_lakehouse.formats.base import is_stage_branch
from kedro_lakehouse.project import Project

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.crash

TABLE = {"source": "shop", "keys": ["id"], "history": True}
ROW = {"id": pa.int64(), "name": pa.string(), "ts": pa.timestamp("us"), "seq": pa.string()}
STAGES = {"ingestion": "_changes", "current": "", "history": "_history"}
"""The suffix of the table that each stage commits to."""
IN_CRASH = pytest.mark.skipif(KILLS <= FEW, reason="takes minutes; `make crash`, of this format, runs it")
FORMATS: list[Any] = ["iceberg", pytest.param("delta", marks=[pytest.mark.delta, IN_CRASH])]
if FORMAT != "iceberg":
    FORMATS = [pytest.param(FORMAT, marks=IN_CRASH)]
PHASES = [
    *[("planned", "ingestion")] * 3,
    *[(phase, stage) for phase in ("staged", "published", "acknowledged") for stage in STAGES],
]
"""Where the twelve tables of a round are left: three of them, with loads of other sizes, before a write."""
ROUNDS = max(KILLS * 3 // 4 // len(PHASES), 1)
RANDOM = KILLS - ROUNDS * len(PHASES)
"""Of four runs three are killed at a phase, in rounds, and the others at a random time."""


def land(project: TemporaryProject, load: int, table: str = "shop.item") -> None:
    """Land a full load of some rows, and changes with one event that belongs into quarantine."""
    folder = project.landing / table.replace(".", "/")
    start = dt.datetime(2026, 1, 1)  # noqa: DTZ001 - zone-less, as DMS writes it
    rows: list[dict[str, Any]] = [{"id": i, "name": f"n{i}", "ts": start, "seq": None} for i in range(load)]
    write_parquet(folder / "LOAD00000001.parquet", rows, ROW)
    changes = [
        {"Op": op, "id": key, "name": name, "ts": start + dt.timedelta(seconds=seq), "seq": str(seq)}
        for seq, (op, key, name) in enumerate(
            [("U", 0, "new"), ("D", 1, None), ("I", 99, "n99"), ("?", 5, "x")], 1
        )
    ]
    write_parquet(folder / "20260101-000010000.parquet", changes, {"Op": pa.string(), **ROW})


def phase_on_disk(project: TemporaryProject, table: str, stage: str) -> str:
    """Read back from the lakehouse alone how far a killed commit came."""
    stored = table + STAGES[stage]
    state = project.state(stored)
    if any((r["table"], r["stage"]) == (table, stage) for r in project.ops("batches")):
        return "acknowledged"
    if state is not None and state.batch == 1:
        return "published"
    warehouse = project.path / "lakehouse/warehouse/shop"
    files = [*warehouse.glob(f".stage_{stored.split('.')[1]}.*/*")]
    if state is not None and state.rows == 0:  # a small batch's stage are files that no commit names
        files += (warehouse / stored.split(".")[1]).glob("**/*.parquet")
    if state is not None and (any(map(is_stage_branch, state.branches)) or files):
        return "staged"
    planned = [r["batch"] for r in project.ops("batch_ledger") if r["table"] == table]
    return "planned" if planned == [1] else "nothing"


def assert_whole(project: TemporaryProject, load: int, table: str = "shop.item") -> None:
    """The tables, the ledger and the metrics are those of a run that nobody killed."""
    expected = {i: f"n{i}" for i in range(load) if i != 1} | {0: "new", 99: "n99"}
    rows = project.rows(table)
    assert Counter((r["id"], r["name"]) for r in rows) == Counter(expected.items()), table
    versions = Counter((r["id"], r["name"], r["is_current"]) for r in project.rows(f"{table}_history"))
    closed = {(0, "n0", False), (1, "n1", False)}
    assert versions == Counter([*closed, *((i, n, True) for i, n in expected.items())]), table
    assert len(project.rows(f"{table}_changes")) == load + 3, table
    assert [r["_reasons"][0] for r in project.rows(f"{table}_quarantine")] == ["unknown_op"], table
    assert [r["batch"] for r in project.ops("batch_ledger") if r["table"] == table] == [1], table
    batches = Counter((r["stage"], r["batch"]) for r in project.ops("batches") if r["table"] == table)
    assert batches == Counter((stage, 1) for stage in STAGES), table
    for suffix in (*STAGES.values(), "_quarantine"):
        assert list(project.state(table + suffix).branches) == [], table + suffix


@pytest.mark.parametrize("table_format", FORMATS)
@pytest.mark.parametrize("number", range(ROUNDS))
def test_killed_at_a_phase_the_next_run_ends_in_the_same_tables(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_format: str, number: int
) -> None:
    """Twelve tables of a project, each left at another phase by one run; another run mends them all.

    The runs of every other round take no leases; of four rounds two have no small batches.
    """
    leased = number % 2 == 0
    if not leased:
        monkeypatch.setattr(Project, "lease", no_lease)
    tables = {f"shop.item_{n}": 5 + len(PHASES) * number + n for n in range(len(PHASES))}
    project = TemporaryProject.make(
        tmp_path / "project", SOURCES, {t: dict(TABLE) for t in tables}, table_format=table_format
    )
    if number % 4 >= 2:
        project.set_globals(small_batch=0)
    for table, load in tables.items():
        land(project, load, table)
    places = dict(zip(tables, PHASES, strict=True))
    kill_at(project, places, leased=leased)
    for table, (phase, stage) in places.items():
        assert phase_on_disk(project, table, stage) == phase, table
    project.run()
    for table, load in tables.items():
        assert_whole(project, load, table)


RANDOM_TABLES = ("person", "player", "sport_location", "sport_team", "sporting_event", "ticket_purchase_hist")
IN_A_ROW = 4
"""How often a project's runs are killed before one may end."""


@pytest.fixture(scope="module")
def seed() -> int:
    """A new seed each time, printed by the tests that use it."""
    return random.SystemRandom().randrange(2**32)


@IN_CRASH
@pytest.mark.parametrize("number", range(-(-RANDOM // IN_A_ROW)))
def test_runs_that_are_killed_one_after_the_other_at_random_times_lose_nothing(
    make_project: Callable[..., TemporaryProject], seed: int, number: int
) -> None:
    project = _dms_project(make_project)
    chance, before = random.Random(seed + number), 0  # noqa: S311
    print(f"seed {seed}, project {number}")  # noqa: T201
    with scratch() as env:
        for _ in range(IN_A_ROW):
            _kill_at_random(project, chance, env)
            found = _commits(project)
            assert before <= found < len(RANDOM_TABLES) * len(STAGES)
            before = found
    project.run()
    for table in RANDOM_TABLES:
        assert differences_from_expected(table, project.arrow(f"dms_sample.{table}")) == (0, 0)
        for suffix in STAGES.values():
            assert list(project.state(f"dms_sample.{table}{suffix}").branches) == []
        rows = Counter(
            (r["stage"], r["batch"]) for r in project.ops("batches") if r["table"] == f"dms_sample.{table}"
        )
        assert rows == Counter((stage, 1) for stage in STAGES)


def _kill_at_random(project: TemporaryProject, chance: random.Random, env: dict[str, str]) -> None:
    """Kill a run some time after its first commit or its second, so that some are left for other runs."""
    commits, delay = chance.randint(1, 2), chance.uniform(0, 0.5)
    command = [Path(sys.executable).with_name("kedro"), "run"]
    with subprocess.Popen(
        command, cwd=project.path, start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, env=env | {"PYTHONUNBUFFERED": "1", "COLUMNS": "200"},
    ) as process:  # fmt: skip
        assert process.stdout is not None
        told = (line for line in process.stdout if re.search(r" batch 1: ", line))
        assert len(list(islice(told, commits))) == commits, "the run ended before its time to be killed"
        time.sleep(delay)
        os.killpg(process.pid, signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "the run ended before its time to be killed"
    print(f"killed {delay:.2f} s after commit {commits}")  # noqa: T201


def _dms_project(make_project: Callable[..., TemporaryProject]) -> TemporaryProject:
    import yaml

    conf = ROOT / "conf/base"
    sources = yaml.safe_load((conf / "sources.yml").read_text(encoding="utf-8"))
    tables = yaml.safe_load((conf / "tables.yml").read_text(encoding="utf-8"))
    wanted = {f"dms_sample.{t}": tables[f"dms_sample.{t}"] for t in RANDOM_TABLES}
    project = make_project({"dms_sample": sources["dms_sample"]}, wanted)
    for table in RANDOM_TABLES:
        shutil.copytree(DATA / "01_raw/dms_sample" / table, project.landing / "dms_sample" / table)
    return project


def _commits(project: TemporaryProject) -> int:
    """How many of the tables' commits are published."""
    stored = [f"dms_sample.{t}{suffix}" for t in RANDOM_TABLES for suffix in STAGES.values()]
    return sum(bool(s and s.bookmark) for s in map(project.state, stored))
