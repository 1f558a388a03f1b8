"""Two processes that write the same keys at once: nothing is lost, nothing doubled, nobody starves."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from crash.test_kills import KILLS, SOURCES, STAGES, TABLES
from crash.writer import KEYS, file_of
from harness.project import TemporaryProject

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.crash

HERE = Path(__file__).parent
MANY = KILLS > 100
FILES = 25 if MANY else 3
WAYS = ["leased", "without-lease", "maintained"] if MANY else [pytest.param("leased", marks=pytest.mark.slow)]


class Worker:
    """A process of its own that works on a project."""

    def __init__(self, script: str, project: TemporaryProject, *words: object) -> None:
        self._log = project.path / f"{'-'.join(map(str, (script, *words)))}.log"
        path = os.pathsep.join(p for p in sys.path if p)
        with self._log.open("w") as out, self._log.with_suffix(".err").open("w") as err:
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / script), str(project.path), *map(str, words)],
                stdout=out, stderr=err, env=os.environ | {"PYTHONPATH": path},
            )  # fmt: skip

    def told(self) -> list[str]:
        """The lines that it has printed when it ends."""
        code = self._process.wait()
        assert code == 0, self._log.with_suffix(".err").read_text()[-3000:]
        return self._log.read_text().splitlines()


@contextlib.contextmanager
def maintained(project: TemporaryProject) -> Iterator[None]:
    """Keep the tables in order meanwhile, without leases."""
    project.write("maintenance", {"compact": {"small_files": 2}, "manifests": {"at_least": 2}})
    maintainer = Worker("maintainer.py", project)
    try:
        yield
    finally:
        (project.path / "stop").touch()
        told = maintainer.told()
    done = Counter((r["table"], work) for r in project.ops("maintenance") for work in r["actions"])
    print(f"done meanwhile: {dict(done)}; lost races: {told}")  # noqa: T201
    assert done


@pytest.mark.parametrize("way", WAYS)
def test_two_processes_on_the_same_keys(tmp_path: Path, way: str) -> None:
    sources = {"shop": SOURCES["shop"] | {"max_files": 1}}
    project = TemporaryProject.make(tmp_path / "project", sources, TABLES)
    (project.landing / "shop/item").mkdir(parents=True)
    with maintained(project) if way == "maintained" else contextlib.nullcontext():
        writers = [Worker("writer.py", project, writer, FILES, f"--{way}") for writer in range(2)]
        told = [writer.told() for writer in writers]
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
    assert way == "without-lease" or set(batches.values()) == {1}  # else both may write the row that one owes
    assert {b for stage, b in batches if stage == "ingestion"} == set(range(1, 2 * FILES + 1))
    for table in STAGES.values():
        assert list(project.state(table).branches) == [], table
    commits = [sum(line.startswith("ingestion ") for line in lines) for lines in told]
    print(f"ingestion commits of the two writers: {commits}")  # noqa: T201
    assert way == "without-lease" or min(commits) >= FILES // 4, f"one writer starved: {commits}"
