"""The tutorial of ten minutes from "Add a table" on: its own commands, in their order, and what they show."""

from __future__ import annotations

import re
import shlex
import subprocess
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from harness import pages
from harness.project import ROOT, TemporaryProject

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.errors import LakehouseError

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.e2e

PAGE = ROOT / "docs/tutorials/ten-minutes.md"
TABLE = "shop.order"


@dataclass(frozen=True)
class Step:
    """One command of the page: what it printed, and the orders and open quarantine after it."""

    command: str
    output: str
    orders: dict[int, Decimal]


def steps(project: TemporaryProject) -> Iterator[Step]:
    start = PAGE.read_text(encoding="utf-8").partition("## 3.")[0].count("\n")
    for block in pages.blocks(PAGE):
        if block.language == "bash" and block.line > start:
            for command in pages.commands(block):
                output = done(project, command)
                rows = {row["id"]: row["amount"] for row in project.rows(TABLE)}
                yield Step(command, output, rows)


def done(project: TemporaryProject, command: str) -> str:
    """Do what a command does; Kedro's in this process, on the Spark that runs already."""
    if not command.startswith(".venv/bin/kedro"):
        subprocess.run(["bash", "-euc", command], cwd=project.path, check=True)
        return ""
    _, *words = shlex.split(command)
    if words[0] == "lakehouse":
        return CliRunner().invoke(lakehouse, words[1:]).output
    asked = [w.removeprefix("--namespaces=") for w in words if w.startswith("--namespaces=")]
    try:
        outcome = project.attempt(namespaces=asked)
    except LakehouseError as error:  # before any table
        return str(error)
    return " ".join([*map(str, outcome.failed.values()), outcome.retry])


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> tuple[TemporaryProject, list[Step]]:
    project = TemporaryProject.make(tmp_path_factory.mktemp("tutorial") / "project", {}, {})
    places = {"landing": str(project.path / "data/01_raw"), "lakehouse": str(project.path / "data/lakehouse")}
    project.write("globals", places, env="local")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(project.path)
        patch.setenv("COLUMNS", "160")
        return project, list(steps(project))


def printed(tried: tuple[TemporaryProject, list[Step]], pattern: str) -> list[Step]:
    return [step for step in tried[1] if re.search(pattern, step.command)]


def test_each_run_leaves_the_orders_that_the_page_tells(tried: Any) -> None:
    runs = [{k: str(v) for k, v in step.orders.items()} for step in printed(tried, "kedro run|--replay")]
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


def test_what_is_wrong_is_said(tried: Any) -> None:
    typo, failed = (step for step in printed(tried, "kedro run") if "[" in step.output)
    assert "[CONFIGURATION]" in typo.output
    assert "history" in typo.output
    assert "[MISSING_COLUMN]" in failed.output
    assert failed.output.endswith(f"kedro run --namespaces={TABLE}")
    (listed,) = printed(tried, f"quarantine {TABLE}$")
    assert "amount_is_positive" in listed.output


def test_a_late_change_stands_before_the_newer_one(tried: Any) -> None:
    project, _ = tried
    versions = sorted(
        (row["id"], row["effective_from"].hour, str(row["amount"]), row["is_current"])
        for row in project.rows(f"{TABLE}_history")
        if row["id"] == 1
    )
    assert versions == [(1, 8, "18.00", False), (1, 9, "20.00", True)]


def test_what_a_batch_did_is_told_by_key(tried: Any) -> None:
    (told,) = printed(tried, "lakehouse changes")
    assert re.search(r"U\W+2\b|2\W+U\b", told.output), told.output
