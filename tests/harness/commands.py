"""Commands of the project in this process, on the project of the test's module."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.project import _Active

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result

    from harness.project import TemporaryProject


@pytest.fixture
def call(project: TemporaryProject, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """What ``kedro lakehouse ...`` did."""
    monkeypatch.chdir(project.path)
    monkeypatch.delenv("KEDRO_ENV", raising=False)
    monkeypatch.setattr(_Active, "project", None)
    monkeypatch.setattr(sys, "path", list(sys.path))
    return lambda *words: CliRunner().invoke(lakehouse, words)


@pytest.fixture
def answer(call: Callable[..., Result]) -> Callable[..., Any]:
    """What it told as JSON."""

    def run(*words: str) -> Any:
        done = call(*words, "--json")
        assert done.exit_code == 0, done.output
        return json.loads(done.stdout)

    return run


@pytest.fixture
def refusal(call: Callable[..., Result]) -> Callable[..., Any]:
    """The error with which it refused, as JSON."""

    def run(*words: str) -> Any:
        done = call(*words, "--json")
        assert done.exit_code != 0, done.output
        return json.loads(done.stderr)["error"]

    return run
