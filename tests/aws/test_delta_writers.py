"""Two processes that write one Delta table in S3 at once: they take turns at its log."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from harness.project import environment
from harness.soak import only_in_soak

if TYPE_CHECKING:
    from harness.aws import ProjectOnAws

pytestmark = [pytest.mark.aws, only_in_soak]

SCRIPT = Path(__file__).with_name("delta_writer.py")
COMMITS = 25


@pytest.fixture(scope="module")
def told(project: ProjectOnAws) -> list[dict[str, Any]]:
    """What the two processes say of the table when both are done."""
    logs = [project.path / f"{writer}.err" for writer in range(2)]
    with contextlib.ExitStack() as opened:
        writers = [
            subprocess.Popen(
                [sys.executable, str(SCRIPT), str(project.path), str(writer), str(COMMITS)],
                stdout=subprocess.PIPE,
                stderr=opened.enter_context(log.open("w")),
                text=True,
                env=environment(),
            )
            for writer, log in enumerate(logs)
        ]
        said = [writer.communicate()[0] for writer in writers]
    for writer, log in zip(writers, logs, strict=True):
        assert writer.returncode == 0, log.read_text()[-5000:]
    return [json.loads(text.splitlines()[-1]) for text in said]


def test_each_commit_of_both_is_there_once(told: list[dict[str, Any]]) -> None:
    wanted = sorted(key for one in told for key in one["keys"])
    assert [one["rows"] for one in told] == [wanted, wanted]
    assert [one["batches"] for one in told] == [list(range(2 * COMMITS, 0, -1))] * 2
    print(f"lost races: {[one['lost races'] for one in told]}")  # noqa: T201
