"""Random schedules of three processes on the real formats, without leases: nothing is lost or doubled.

The processes stop at each phase of each commit, and a seed chooses who goes on. What the simulator does at
each read and write in memory, this does at the phases of real commits.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from crash.gated import DOING
from crash.shop import MANY, assert_each_is_there_once, land, make_shop
from harness.project import environment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from harness.project import TemporaryProject

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(not MANY, reason="takes minutes; `make crash KILLS=200` runs it"),
]

ROUNDS = 34
WRITERS = 3
MEANWHILE = 6
"""The most files that land in a round: each brings steps, and without a bound each step brought files."""


class Gated:
    """A process that does one thing after the other, phase by phase."""

    def __init__(self, number: int, project: TemporaryProject) -> None:
        script = Path(__file__).with_name("gated.py")
        self.name, self.at = f"w{number}", ""
        with (project.path / f"{self.name}.log").open("w") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(script), str(project.path)], text=True,
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, env=environment(),
            )  # fmt: skip

    def send(self, word: str) -> str:
        """Send a word, and wait until the process stops; both as a line of the trace."""
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
    return make_shop(tmp_path / "project", max_files=2)


@pytest.fixture
def writers(project: TemporaryProject) -> Iterator[list[Gated]]:
    made = [Gated(number, project) for number in range(WRITERS)]
    yield made
    for writer in made:
        writer.end()


def test_schedules_of_real_commits(project: TemporaryProject, writers: list[Gated]) -> None:
    seed, kinds, names = random.SystemRandom().randrange(10**9), Counter[str](), list[str]()

    def land_another() -> None:
        names.append(f"file {len(names)}")
        land(project, len(names), names[-1])

    for number in range(ROUNDS):
        chosen, trace = random.Random(seed + number), [f"seed {seed}, round {number}"]  # noqa: S311
        landed = len(names)
        for _ in range(chosen.choice([1, 2, 3])):
            land_another()
        todo = {
            w: [chosen.choice(["run", "run", *DOING])] for w in chosen.sample(writers, chosen.choice([2, 3]))
        }
        kinds.update(words[0] for words in todo.values())
        while busy := [w for w in todo if w.is_busy or todo[w]]:
            writer = chosen.choice(busy)
            trace.append(writer.send("go" if writer.is_busy else todo[writer].pop()))
            assert "failed" not in writer.at, "\n".join(trace)
            if chosen.random() < 0.05 and len(names) < landed + MEANWHILE:
                land_another()
        project.run()
        assert_whole(project, names, "\n".join(trace))
    print(f"{ROUNDS} schedules from seed {seed}: {dict(kinds)}, {len(names)} files")  # noqa: T201


def assert_whole(project: TemporaryProject, names: list[str], trace: str) -> None:
    """Every landed record is applied once, and each commit has one row of metrics."""
    assert_each_is_there_once(project, names, trace)
    rows = project.ops("batches")
    assert _twice((r["table"], r["stage"], r["run_id"], r["committed_at"]) for r in rows) == [], trace
    # A run that has not seen a rebuild may publish a plan of before once more, into the table that the
    # rebuild has emptied: the rebuild gives both commits up, and both have their row.
    plans = project.ops("batch_ledger")
    newest = {r["table"]: max(p["epoch"] for p in plans if p["table"] == r["table"]) for r in plans}
    given_up = {(r["table"], r["content_hash"]) for r in plans if r["epoch"] < newest[r["table"]]}
    kept = [r for r in rows if (r["table"], r["content_hash"]) not in given_up]
    assert _twice((r["table"], r["stage"], r["content_hash"], r["follows"]) for r in kept) == [], trace


def _twice(rows: Iterable[tuple[object, ...]]) -> list[tuple[object, ...]]:
    return [row for row, times in Counter(rows).items() if times > 1]
