"""Random schedules of three processes on the real formats, without leases: nothing is lost or doubled.

The processes stop at each phase of each commit, and a seed chooses who goes on. What the simulator does at
each read and write in memory, this does at the phases of real commits.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from crash.gated import DOING
from crash.test_kills import KILLS, SOURCES
from crash.writer import SCHEMA, TABLES, file_of
from harness.project import TemporaryProject, write_parquet

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.crash, pytest.mark.slow]

ROUNDS = 34 if KILLS > 100 else 3
WRITERS = 3


class Gated:
    """A process that does one thing after the other, phase by phase."""

    def __init__(self, number: int, project: TemporaryProject) -> None:
        script = Path(__file__).with_name("gated.py")
        env = os.environ | {"PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
        self.name, self.at = f"w{number}", ""
        with (project.path / f"{self.name}.log").open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(script), str(project.path)], text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=env,
            )  # fmt: skip

    def tell(self, word: str) -> str:
        """Say a word, and wait for where the process stops next."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(word, file=self._process.stdin, flush=True)
        self.at = self._process.stdout.readline().strip()
        return f"{self.name} {word}: {self.at}"

    @property
    def is_busy(self) -> bool:
        """Whether it stands at a phase."""
        return self.at.startswith("at ")

    def end(self) -> None:
        """Let it go; one that stands at a phase is killed."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def project(tmp_path: Path) -> TemporaryProject:
    made = TemporaryProject.make(tmp_path / "project", {"shop": SOURCES["shop"] | {"max_files": 2}}, TABLES)
    for table in TABLES:
        (made.landing / "shop" / table.split(".")[1]).mkdir(parents=True)
    return made


@pytest.fixture
def writers(project: TemporaryProject) -> Iterator[list[Gated]]:
    made = [Gated(number, project) for number in range(WRITERS)]
    yield made
    for writer in made:
        writer.end()


def land(project: TemporaryProject, number: int) -> None:
    name, rows = file_of(0, 1, number)
    for table in TABLES:
        write_parquet(project.landing / "shop" / table.split(".")[1] / name, rows, SCHEMA)


def test_schedules_of_real_commits(project: TemporaryProject, writers: list[Gated]) -> None:
    seed, landed, kinds = random.SystemRandom().randrange(10**9), 0, Counter[str]()
    for number in range(ROUNDS):
        chosen, trace = random.Random(seed + number), [f"seed {seed}, round {number}"]  # noqa: S311
        for _ in range(chosen.choice([1, 2, 3])):
            land(project, landed)
            landed += 1
        todo = {
            w: [chosen.choice(["run", "run", *DOING])] for w in chosen.sample(writers, chosen.choice([2, 3]))
        }
        kinds.update(words[0] for words in todo.values())
        while busy := [w for w in todo if w.is_busy or todo[w]]:
            writer = chosen.choice(busy)
            trace.append(writer.tell("go" if writer.is_busy else todo[writer].pop()))
            assert "failed" not in writer.at, "\n".join(trace)
            if chosen.random() < 0.05:
                land(project, landed)
                landed += 1
        project.run()
        assert_whole(project, landed, "\n".join(trace))
    print(f"{ROUNDS} schedules from seed {seed}: {dict(kinds)}, {landed} files")  # noqa: T201


def assert_whole(project: TemporaryProject, landed: int, trace: str) -> None:
    """Every landed record is applied once, and each commit has one row of metrics."""
    files = [file_of(0, 1, number)[1] for number in range(landed)]
    once = Counter((r["id"], r["name"]) for rows in files for r in rows)
    for table in ("shop.item_changes", "shop.item_history", "shop.line_changes", "shop.line"):
        assert Counter((r["id"], r["name"]) for r in project.rows(table)) == once, f"{table}\n{trace}"
    newest = Counter((r["id"], r["name"]) for r in files[-1])
    assert Counter((r["id"], r["name"]) for r in project.rows("shop.item")) == newest, trace
    rows = Counter((r["table"], r["stage"], r["content_hash"], r["follows"]) for r in project.ops("batches"))
    assert [row for row, times in rows.items() if times > 1] == [], trace
