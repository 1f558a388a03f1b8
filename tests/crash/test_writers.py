"""Two and four processes that write the same tables at once: nothing is lost or doubled, nobody starves."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from crash.shop import MANY, TABLES, assert_each_is_there_once, make_shop
from harness.project import environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.project import TemporaryProject

pytestmark = [
    pytest.mark.crash,
    pytest.mark.skipif(not MANY, reason="takes minutes; `make crash KILLS=200` runs it"),
]

HERE = Path(__file__).parent
FILES = 25
WAYS: list[Any] = [
    (2, "leased"), (2, "without-lease"), (2, "maintained"), (4, "leased"), (4, "without-lease"),
]  # fmt: skip
ROLES = ["item_changes", "item", "item_history", "line_changes", "line"]


class Worker:
    """A process of its own that works on a project."""

    def __init__(self, script: str, project: TemporaryProject, *words: object) -> None:
        self._log = project.path / f"{'-'.join(map(str, (script, *words)))}.log"
        with self._log.open("w") as out, self._log.with_suffix(".err").open("w") as err:
            self._process = subprocess.Popen(
                [sys.executable, str(HERE / script), str(project.path), *map(str, words)],
                stdout=out, stderr=err, env=environment(),
            )  # fmt: skip

    def end(self) -> None:
        """Kill it if it still works, as after an error of another one, and wait for its end."""
        self._process.kill()
        self._process.wait()

    def lines(self) -> list[str]:
        """Wait for its end; the lines that it has printed."""
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
        races = [line for line in maintainer.lines() if "Error" in line]  # beside the runs' summaries
    done = Counter((r["table"], work) for r in project.ops("maintenance") for work in r["actions"])
    print(f"done meanwhile: {dict(done)}; lost races: {races}")  # noqa: T201
    assert done


@pytest.mark.parametrize(("writers", "way"), WAYS)
def test_processes_write_the_same_tables(tmp_path: Path, writers: int, way: str) -> None:
    project = make_shop(tmp_path / "project", max_files=1)
    with contextlib.ExitStack() as ends:
        if way == "maintained":
            ends.enter_context(maintained(project))
        workers = [Worker("writer.py", project, w, writers, FILES, f"--{way}") for w in range(writers)]
        for worker in workers:
            ends.callback(worker.end)
        printed = [worker.lines() for worker in workers]
    project.run()

    assert_each_is_there_once(project, [f"w{w}.{n}" for n in range(FILES) for w in range(writers)])
    batches = Counter((r["table"], r["stage"], r["batch"]) for r in project.ops("batches"))
    assert set(batches.values()) == {1}
    for table in TABLES:
        ingested = {b for t, stage, b in batches if (t, stage) == (table, "ingestion")}
        assert ingested == set(range(1, writers * FILES + 1)), table
    for role in ROLES:
        assert list(project.state(f"shop.{role}").branches) == [], role
    commits = [sum(line.startswith("shop.item ingestion ") for line in lines) for lines in printed]
    print(f"ingestion commits of the {writers} writers: {commits}")  # noqa: T201
    assert way == "without-lease" or min(commits) >= FILES // 4, f"one writer starved: {commits}"
