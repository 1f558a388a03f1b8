"""Which Java is there, told by the file beside it or, without one, by Java itself."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from kedro_lakehouse.errors import JavaNotFoundError
from kedro_lakehouse.session.java import require_java

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.unit


def home(folder: Path, monkeypatch: pytest.MonkeyPatch, *, release: str | None, banner: str = "") -> None:
    """A Java that prints its version, or fails if it is asked and has none to print."""
    (folder / "bin").mkdir()
    script = folder / "bin/java"
    script.write_text(f"#!/bin/sh\necho '{banner}' >&2\n", encoding="utf-8")
    script.chmod(0o755)
    if release is not None:
        (folder / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{release}"\n', encoding="utf-8")
    monkeypatch.setenv("JAVA_HOME", str(folder))


def test_the_file_beside_java_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home(tmp_path, monkeypatch, release="17.0.15")
    require_java()


def test_without_that_file_java_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home(tmp_path, monkeypatch, release=None, banner='openjdk version "17.0.2" 2022-01-18')
    require_java()


def test_another_java_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home(tmp_path, monkeypatch, release="11.0.2")
    with pytest.raises(JavaNotFoundError, match="Java 11"):
        require_java()


def test_another_java_is_warned_of_or_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home(tmp_path, monkeypatch, release="21.0.1")
    with pytest.warns(UserWarning, match="Java 21"):
        require_java()


def test_the_java_home_that_holds_no_java_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    with pytest.raises(JavaNotFoundError, match="none in JAVA_HOME, which is /nowhere"):
        require_java()


def test_a_java_that_ends_at_once_is_no_traceback_of_pyspark() -> None:
    code = """
from kedro_lakehouse.errors import SparkNotStartedError
from kedro_lakehouse.session.spark import get_session
try:
    get_session({"spark.driver.memory": "4 gigs"})
except SparkNotStartedError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "driver_memory in globals.yml" in done.stdout
    assert "4 gigs" in done.stderr  # what Java itself says
