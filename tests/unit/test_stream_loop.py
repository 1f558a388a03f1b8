"""When the loop maintains a table."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from harness.project import TemporaryProject, environment

from kedro_lakehouse import streaming
from kedro_lakehouse.streaming import Stream

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.unit


class Report:
    def __init__(self, table: str) -> None:
        self.table = table


class Ran:
    """What the loop ran, in place of runs: each cycle writes the tables that it is asked for."""

    def __init__(self) -> None:
        self.maintained: list[str] = []
        self.reports: list[Report] = []

    def run_tables(self, _folder: Path, _env: str | None, tables: Sequence[str], *pipelines: str) -> None:
        if pipelines:
            self.maintained += tables
        else:
            self.reports = [Report(table) for table in tables]


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> Ran:
    made = Ran()
    monkeypatch.setattr(streaming, "run_tables", made.run_tables)
    monkeypatch.setattr(streaming, "active_project", lambda: made)
    return made


def cycles(loop: Stream, number: int, *tables: str) -> None:
    for _ in range(number):
        assert loop._cycle(tables)
        loop._maintain_one()


def test_a_table_is_maintained_after_many_cycles_that_wrote_it(ran: Ran) -> None:
    loop = Stream(folder=Path(), env=None, maintain_every=3600)
    cycles(loop, 99, "shop.item")
    assert ran.maintained == []
    cycles(loop, 2, "shop.item", "shop.other")
    assert sorted(ran.maintained) == ["ops.tables", "shop.item"]
    cycles(loop, 97, "shop.other")
    assert len(ran.maintained) == 2
    cycles(loop, 1, "shop.other")
    assert ran.maintained[2:] == ["shop.other"]


def test_a_table_is_maintained_when_its_time_has_come(ran: Ran, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    clock: Any = lambda: now[0]  # noqa: E731 - a clock
    monkeypatch.setattr(streaming.time, "monotonic", clock)
    loop = Stream(folder=Path(), env=None, maintain_every=60)
    cycles(loop, 3, "shop.item")
    now[0] = 61.0
    assert loop._maintain_one()
    assert loop._maintain_one()
    assert not loop._maintain_one()
    assert sorted(ran.maintained) == ["ops.tables", "shop.item"]


def test_arrow_takes_its_memory_from_the_system(tmp_path: Path) -> None:
    """Else what threads that have ended leave behind stays in use."""
    project = TemporaryProject.make(tmp_path / "project", {}, {})
    ended = (
        "import sys; from kedro.framework.cli.cli import main\n"
        "sys.argv = ['kedro', 'lakehouse', 'stream', '--until-idle', '--every', '1 s']\n"
        "try: main()\n"
        "except SystemExit: import pyarrow; print(pyarrow.default_memory_pool().backend_name)"
    )
    done = subprocess.run(
        [sys.executable, "-c", ended], cwd=project.path, env=environment(), capture_output=True, text=True,
        check=True, timeout=120,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1] == "system", done.stderr[-2000:]
