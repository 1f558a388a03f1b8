"""Tutorials: their own commands, in their order, and what they show.

That of ten minutes is followed from "Add a table" on.
"""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner
from harness import pages
from harness.project import ROOT, TemporaryProject

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.errors import LakehouseError
from kedro_lakehouse.ops.failures import TablesFailedError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.e2e, pytest.mark.slow]

TEN_MINUTES = ROOT / "docs/tutorials/ten-minutes.md"
UPLOADS = ROOT / "docs/tutorials/uploads.md"


@dataclass(frozen=True)
class Step:
    """One command of a page: what it printed, and the orders after it, where there are any."""

    command: str
    output: str
    orders: dict[int, str]


@dataclass
class Tried:
    """A page's commands, done one after another; ``shown`` is what it says a block prints, and what did."""

    project: TemporaryProject
    page: Path
    steps: list[Step] = field(default_factory=list)
    shown: list[tuple[pages.Block, str]] = field(default_factory=list)

    def go(self, heading: str) -> None:
        """Do what the page says from a heading on."""
        start = self.page.read_text(encoding="utf-8").partition(heading)[0].count("\n")
        output = ""
        for block in (b for b in pages.blocks(self.page) if b.line > start):
            if block.language == "text":
                self.shown.append((block, output))
                continue
            done = [self.do(command) for command in pages.commands(block)]
            output = " ".join(step.output for step in done)
            self.steps += done

    def do(self, command: str) -> Step:
        output = self.said(command)
        orders = self.project.rows("shop.order") if self.page == TEN_MINUTES else []
        return Step(command, output, {r["id"]: str(r["amount"]) for r in orders})

    def said(self, command: str) -> str:
        """Do what a command does; Kedro's in this process, on the Spark that runs already."""
        if not command.startswith(".venv/bin/kedro"):
            subprocess.run(["bash", "-euc", command], cwd=self.project.path, check=True)
            return ""
        _, *words = shlex.split(command)
        if words[0] == "lakehouse":
            return CliRunner().invoke(lakehouse, words[1:]).output
        asked = [w.removeprefix("--namespaces=") for w in words if w.startswith("--namespaces=")]
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            try:
                ended = self.project.attempt(namespaces=asked)
            except LakehouseError as error:  # before any table
                return str(error)
        failure = str(TablesFailedError(tables=ended.failed, retry=ended.retry)) if ended.failed else ""
        return printed.getvalue() + failure


def followed(folder: Path, page: Path, heading: str) -> Tried:
    """A page whose commands were done in a project of its own."""
    project = TemporaryProject.make(folder / "project", {}, {})
    places = {"landing": str(project.path / "data/01_raw"), "lakehouse": str(project.path / "data/lakehouse")}
    project.write("globals", places, env="local")
    found = Tried(project, page)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project.path)
        patch.setenv("COLUMNS", "160")
        found.go(heading)
    return found


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> Tried:
    return followed(tmp_path_factory.mktemp("tutorial"), TEN_MINUTES, "## 3.")


def words(text: str) -> str:
    return " ".join(text.split())


def test_the_page_shows_what_is_printed(tried: Tried) -> None:
    assert len(tried.shown) == 7
    for block, output in tried.shown:
        for line in block.text.splitlines():
            assert words(line) in words(output), block


def test_each_run_leaves_the_orders_that_the_page_tells(tried: Tried) -> None:
    runs = [step.orders for step in tried.steps if re.search("kedro run|--replay", step.command)]
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
    tried = followed(tmp_path, UPLOADS, "## 1.")
    assert len(tried.shown) == 5
    for block, output in tried.shown:
        for line in block.text.splitlines():
            assert words(line) in words(output), block
    checked, planned = (
        next(step.output for step in tried.steps if step.command.endswith(word)) for word in ("check", "plan")
    )
    assert "No mistake in 1 table" in checked
    assert "sales.price" in planned
