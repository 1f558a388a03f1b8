"""Fixtures of all tests."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

os.environ["DO_NOT_TRACK"] = "1"  # before Kedro is imported: its telemetry would look for a network

from harness.project import TemporaryProject

from kedro_lakehouse import redaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


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
