"""A tutorial as somebody follows it: the commands of its page, one after another, and what they print."""

from __future__ import annotations

import contextlib
import io
import shlex
import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from harness import pages
from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.errors import LakehouseError
from kedro_lakehouse.ops.failures import TablesFailedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from harness.project import TemporaryProject

_KEDRO = ".venv/bin/kedro"


@dataclass(frozen=True)
class Step:
    """One command of a page: what it printed, and what ``look`` saw after it."""

    command: str
    output: str
    seen: Any


@dataclass
class Followed:
    """A page's commands, done in a project.

    ``otherwise`` says how commands that begin with certain words are done here. ``look`` is called after
    each command. ``shown`` has each block of output of the page, and what was printed before it.
    """

    project: TemporaryProject
    page: Path
    otherwise: Mapping[str, Callable[[str], str]] = field(default_factory=dict)
    look: Callable[[TemporaryProject], Any] = field(default=lambda _: None)
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
            done = [self._do(command) for command in pages.commands(block)]
            output = " ".join(step.output for step in done)
            self.steps += done

    def output_of(self, command: str) -> str:
        """What the first command with these words printed."""
        return next(step.output for step in self.steps if command in step.command)

    def require_what_it_shows(self, blocks: int) -> None:
        """Each line of the page's blocks of output was printed by the commands before it."""
        assert len(self.shown) == blocks
        for block, output in self.shown:
            for line in block.text.splitlines():
                assert _words(line) in _words(output), (str(block), line, output)

    def _do(self, command: str) -> Step:
        output = self._said(command)
        return Step(command, output, self.look(self.project))

    def _said(self, command: str) -> str:
        """Do what a command does; Kedro's in this process, on the Spark that runs already."""
        for words, do in self.otherwise.items():
            if command.startswith(words):
                return do(command)
        if not command.startswith(_KEDRO):
            return in_shell(command, self.project)
        words = shlex.split(command)[1:]
        if words[0] == "lakehouse":
            done = CliRunner().invoke(lakehouse, words[1:])
            assert done.exit_code == 0, (command, done.output)
            return done.output
        return self._run(words)

    def _run(self, words: list[str]) -> str:
        """Do what ``kedro run`` does with options of the form ``--name=value``."""
        assert words[0] == "run"
        options = dict(word.removeprefix("--").split("=", 1) for word in words[1:])
        pipelines, namespaces = ([options[n]] if n in options else [] for n in ("pipelines", "namespaces"))
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            try:
                ended = self.project.attempt(*pipelines, namespaces=namespaces)
            except LakehouseError as error:  # before any table
                return str(error)
        failure = str(TablesFailedError(tables=ended.failed, retry=ended.retry)) if ended.failed else ""
        return printed.getvalue() + failure


def follow(tutorial: Followed, heading: str = "## 1.") -> Followed:
    """Do what a page says from a heading on, in the project's folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tutorial.project.path)
        patch.setenv("COLUMNS", "160")
        tutorial.go(heading)
    return tutorial


def in_shell(command: str, project: TemporaryProject) -> str:
    """Do what a command of the shell does in the project's folder; what it prints."""
    words = ["bash", "-euc", command]
    return subprocess.run(words, cwd=project.path, check=True, stdout=subprocess.PIPE, text=True).stdout


def _words(text: str) -> str:
    return " ".join(text.split())
