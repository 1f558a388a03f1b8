"""Two and four processes that write the same tables at once: nothing is lost or doubled, nobody starves."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from crash.test_kills import KILLS, SOURCES
from crash.writer import KEYS, TABLES, file_of
from harness.project import TemporaryProject

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.crash

HERE = Path(__file__).parent
MANY = KILLS > 100
FILES = 25 if MANY else 3
WAYS: list[Any] = [
    (2, "leased"), (2, "without-lease"), (2, "maintained"), (4, "leased"), (4, "without-lease"),
]  # fmt: skip
if not MANY:
    WAYS = [
        pytest.param(2, "leased", marks=pytest.mark.slow),
        pytest.param(2, "without-lease", marks=pytest.mark.slow),
    ]
ROLES = ["item_changes", "item", "item_history", "line_changes", "line"]


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


@pytest.mark.parametrize(("writers", "way"), WAYS)
def test_processes_write_the_same_tables(tmp_path: Path, writers: int, way: str) -> None:
    sources = {"shop": SOURCES["shop"] | {"max_files": 1}}
    project = TemporaryProject.make(tmp_path / "project", sources, TABLES)
    for table in TABLES:
        (project.landing / "shop" / table.split(".")[1]).mkdir(parents=True)
    with maintained(project) if way == "maintained" else contextlib.nullcontext():
        workers = [Worker("writer.py", project, w, writers, FILES, f"--{way}") for w in range(writers)]
        told = [worker.told() for worker in workers]
    project.run()

    newest = file_of(writers - 1, writers, FILES - 1)[1][0]["name"]
    assert Counter((r["id"], r["name"]) for r in project.rows("shop.item")) == Counter(
        (key, newest) for key in range(KEYS)
    )
    names = [f"w{writer}.{number}" for writer in range(writers) for number in range(FILES)]
    once = Counter((key, name) for key in range(KEYS) for name in names)
    for table in ("shop.item_changes", "shop.item_history", "shop.line_changes", "shop.line"):
        assert Counter((r["id"], r["name"]) for r in project.rows(table)) == once, table
    batches = Counter((r["table"], r["stage"], r["batch"]) for r in project.ops("batches"))
    assert set(batches.values()) == {1}
    for table in TABLES:
        ingested = {b for t, stage, b in batches if (t, stage) == (table, "ingestion")}
        assert ingested == set(range(1, writers * FILES + 1)), table
    for role in ROLES:
        assert list(project.state(f"shop.{role}").branches) == [], role
    commits = [sum(" ingestion " in line for line in lines) for lines in told]
    print(f"ingestion commits of the {writers} writers: {commits}")  # noqa: T201
