"""Fixtures of all tests."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

os.environ["DO_NOT_TRACK"] = "1"  # before Kedro is imported: its telemetry would look for a network

from harness.project import TemporaryProject
from harness.settings import ask_frames_for_their_names_only

from kedro_lakehouse import redaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ask_frames_for_their_names_only()

SECONDS = json.loads(Path(__file__).with_name("seconds.json").read_text(encoding="utf-8"))
"""How long each file of tests took (``bench/lane_times.py``)."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest: no worker is left alone with one of them at the end."""
    items.sort(key=lambda item: -SECONDS.get(item.nodeid.partition("::")[0], 0))


@pytest.fixture(autouse=True)
def forgotten_secrets() -> Iterator[None]:
    """A test's secrets are not replaced in what the next one prints."""
    yield
    redaction._known.forget()


@pytest.fixture
def make_project(tmp_path: Path) -> Callable[[dict[str, Any], dict[str, Any]], TemporaryProject]:
    """Make a project in a temporary folder from sources and tables."""

    def make(sources: dict[str, Any], tables: dict[str, Any]) -> TemporaryProject:
        return TemporaryProject.make(tmp_path / "project", sources, tables)

    return make
