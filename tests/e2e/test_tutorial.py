"""Tutorials: their own commands, in their order, and what they show.

That of ten minutes is followed from "Add a table" on; that of a database is in tests/sources.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
from typing import TYPE_CHECKING
from urllib.request import urlopen

import pytest
from harness.processes import free_port
from harness.project import ROOT, TemporaryProject, environment
from harness.soak import only_in_soak
from harness.tutorials import Followed, follow

from kedro_lakehouse.column_search.embedders.weights import MINILM, weights_folder

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

TUTORIALS = ROOT / "docs/tutorials"
needs_the_model = pytest.mark.skipif(
    not weights_folder(MINILM, ROOT / ".cache").is_dir(), reason="the model is not in .cache: make model"
)


def empty_project(folder: Path) -> TemporaryProject:
    """A project without tables, whose places are those of a clone."""
    project = TemporaryProject.make(folder / "project", {}, {})
    places = {"landing": str(project.path / "data/01_raw"), "lakehouse": str(project.path / "data/lakehouse")}
    project.write("globals", places, env="local")
    return project


def orders(project: TemporaryProject) -> dict[int, str]:
    return {row["id"]: str(row["amount"]) for row in project.rows("shop.order")}


@pytest.fixture(scope="module")
def ten_minutes(tmp_path_factory: pytest.TempPathFactory) -> Followed:
    project = empty_project(tmp_path_factory.mktemp("tutorial"))
    return follow(Followed(project, TUTORIALS / "ten-minutes.md", look=orders), "## 3.")


def test_the_page_shows_what_is_printed(ten_minutes: Followed) -> None:
    ten_minutes.require_what_it_shows(blocks=7)


def test_each_run_leaves_the_orders_that_the_page_tells(ten_minutes: Followed) -> None:
    runs = [step.seen for step in ten_minutes.steps if re.search("kedro run|--replay", step.command)]
    first = {1: "20.00", 2: "35.50", 3: "12.00"}
    changed = first | {2: "39.00"}
    assert runs == [
        first,
        changed,
        changed,  # refused: a wrong key
        changed | {5: "8.00"},  # Dora's order is set aside
        changed | {5: "8.00"},  # the file without its key
        changed | {5: "8.00", 6: "15.00"},
        changed | {4: "0.00", 5: "8.00", 6: "15.00"},
    ]


def test_uploads_get_a_history_and_a_broken_one_is_refused(tmp_path: Path) -> None:
    uploads = follow(Followed(empty_project(tmp_path), TUTORIALS / "uploads.md"))
    uploads.require_what_it_shows(blocks=5)
    assert "No mistake in 1 table" in uploads.output_of("lakehouse check")
    assert "sales.price" in uploads.output_of("lakehouse plan")


def opened(console: list[str], project: TemporaryProject) -> int:
    """Start the console as somebody types it, open the address that it prints, and end it."""
    kedro = [str(ROOT / ".venv/bin/kedro"), *console[1:], "--no-browser", "--port", str(free_port())]
    with subprocess.Popen(
        kedro, cwd=project.path, env=environment(), stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as running:
        try:
            assert running.stdout is not None
            address = running.stdout.readline().strip()
            assert "token=" in address
            with urlopen(address) as page:  # noqa: S310 - of this machine
                return int(page.status)
        finally:
            running.send_signal(signal.SIGINT)
            try:
                assert running.wait(60) == 0
            finally:
                running.kill()  # leaving the block waits for it


@only_in_soak
@needs_the_model
def test_a_lake_is_looked_over(tmp_path: Path) -> None:
    """In the state that `make run` leaves: all bundled tables, and the column index."""
    project = TemporaryProject.of_repository(tmp_path / "project")
    statuses: list[int] = []

    def console(command: str) -> str:
        statuses.append(opened(shlex.split(command), project))
        return ""

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project.path)
        project.run()
    otherwise = {".venv/bin/kedro lakehouse console": console}
    looked = follow(Followed(project, TUTORIALS / "find-what-is-in-a-lake.md", otherwise))
    looked.require_what_it_shows(blocks=8)
    assert statuses == [200]
