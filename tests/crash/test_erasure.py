"""SIGKILL at many points of an erasure: the same command finishes it, and no row of others is lost."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from crash.shop import FEW, KILLS
from harness.erasures import ANNA, STORED, made, rows
from harness.kills import scratch
from harness.project import FORMAT, ROOT, TemporaryProject

from kedro_lakehouse.file_search.search import search_files
from kedro_lakehouse.file_search.wanted import Wanted

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(KILLS <= FEW, reason="takes minutes; `make crash KILLS=20` runs it"),
]

ERASE = ROOT / "tests/crash/erase_until.py"
PLACES = 20
"""At so many points, spread over the whole of an erasure, a process is killed."""
SHARES = 2
"""Two tests side by side take every other point."""


def answer_of(done: subprocess.CompletedProcess[str]) -> Any:
    """What the process wrote last: Hudi writes warnings to the same place before."""
    return json.loads(done.stdout.splitlines()[-1])


def erase_until(project: TemporaryProject, point: int) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ERASE), str(project.path), ANNA, str(point)]
    with scratch() as env:
        return subprocess.run(
            command, start_new_session=True, capture_output=True, text=True, check=False, env=env
        )


@pytest.mark.parametrize("share", range(SHARES))
def test_an_erasure_that_is_killed_is_finished_by_the_same_command(tmp_path: Path, share: int) -> None:
    without = made(tmp_path / "without", FORMAT, whole=False)
    expected = {table: rows(without, table) for table in STORED}
    project = made(tmp_path / "project", FORMAT, whole=True)
    before = shutil.copytree(project.path, tmp_path / "before", symlinks=True)
    whole = answer_of(erase_until(project, 0))
    passed = whole["passed"]
    assert whole["rows"] == expected
    print(f"an erasure passes {passed} points")  # noqa: T201
    assert passed > PLACES
    for number in range(PLACES - share, 0, -SHARES):
        shutil.rmtree(project.path)
        shutil.copytree(before, project.path, symlinks=True)
        point = max(passed * number // PLACES, 1)
        killed = erase_until(project, point)
        assert killed.returncode == -signal.SIGKILL, (point, killed.stderr[-2000:])
        again = erase_until(project, 0)
        assert again.returncode == 0, (point, again.stderr[-2000:])
        wanted = Wanted.of([ANNA, "Anna Q. Vandermeulen"], ["id", "customer"])
        assert search_files([str(project.path / "lakehouse")], wanted).found == [], point
        assert answer_of(again)["rows"] == expected, point
