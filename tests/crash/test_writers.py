"""Two processes that write the same keys at once: nothing is lost, nothing doubled, nobody starves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from crash.test_kills import KILLS, SOURCES, STAGES, TABLES
from crash.writer import KEYS, file_of
from harness.project import TemporaryProject

pytestmark = pytest.mark.crash

WRITER = Path(__file__).with_name("writer.py")
MANY = KILLS > 100
FILES = 25 if MANY else 3


@pytest.mark.parametrize("lease", ["leased", "without-lease"] if MANY else ["leased"])
def test_two_processes_on_the_same_keys(tmp_path: Path, lease: str) -> None:
    sources = {"shop": SOURCES["shop"] | {"max_files": 1}}
    project = TemporaryProject.make(tmp_path / "project", sources, TABLES)
    (project.landing / "shop/item").mkdir(parents=True)
    path = os.pathsep.join(p for p in sys.path if p)
    writers = [
        subprocess.Popen(
            [sys.executable, str(WRITER), str(project.path), str(writer), str(FILES), f"--{lease}"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ | {"PYTHONPATH": path},
        )
        for writer in range(2)
    ]  # fmt: skip
    told = [w.communicate() for w in writers]
    assert [w.returncode for w in writers] == [0, 0], [err[-3000:] for _, err in told]
    project.run()

    newest = file_of(1, FILES - 1)[1][0]["name"]
    assert Counter((r["id"], r["name"]) for r in project.rows("shop.item")) == Counter(
        (key, newest) for key in range(KEYS)
    )
    versions = Counter((r["id"], r["name"]) for r in project.rows("shop.item_history"))
    names = [f"w{writer}.{number}" for writer in range(2) for number in range(FILES)]
    assert versions == Counter((key, name) for key in range(KEYS) for name in names)
    assert len(project.rows("shop.item_changes")) == 2 * FILES * KEYS
    batches = Counter((r["stage"], r["batch"]) for r in project.ops("batches"))
    assert lease != "leased" or set(batches.values()) == {1}  # else both may write the row that one owes
    assert {b for stage, b in batches if stage == "ingestion"} == set(range(1, 2 * FILES + 1))
    for table in STAGES.values():
        assert list(project.state(table).branches) == [], table
    commits = [sum(line.startswith("ingestion ") for line in out.splitlines()) for out, _ in told]
    print(f"ingestion commits of the two writers: {commits}")  # noqa: T201
    assert lease != "leased" or min(commits) >= FILES // 4, f"one writer starved: {commits}"
