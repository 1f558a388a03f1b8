"""Find Java before Spark does, to say in one sentence what is missing."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import warnings
from pathlib import Path
from typing import Final

from kedro_lakehouse.errors import JavaNotFoundError

TRIED: Final = 17
LET_THROUGH: Final = 21


def java_command() -> str | None:
    """The java that Spark would run: from JAVA_HOME if that is set, else from the PATH; None if none."""
    home = os.environ.get("JAVA_HOME")
    if home:
        command = Path(home) / "bin" / "java"
        return str(command) if command.is_file() else None
    return shutil.which("java")


def major_version(banner: str) -> int | None:
    """Read the major version from what ``java -version`` prints."""
    found = re.search(r'version "(?:1\.)?(\d+)', banner)
    return int(found[1]) if found else None


def _release_of(command: str) -> str:
    """What the file beside a Java says of its version, as its banner would; empty without such a file."""
    release = Path(command).resolve().parent.parent / "release"
    try:
        found = re.search(r'^JAVA_VERSION="[^"]+"', release.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return ""
    return found[0].replace("JAVA_VERSION=", "version ") if found else ""


def _banner_of(command: str) -> str:
    shown = subprocess.run([command, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    return shown.stderr + shown.stdout


def require_java() -> None:
    """Raise unless Java 17 is there; let 21 pass with a warning.

    Raises:
        JavaNotFoundError: No Java, or one that Spark was not tried with.
    """
    command = java_command()
    if command is None:
        home = os.environ.get("JAVA_HOME")
        raise JavaNotFoundError(found=f"none in JAVA_HOME, which is {home}" if home else "none on the PATH")
    version = major_version(_release_of(command) or _banner_of(command))
    if version == LET_THROUGH:
        warnings.warn("Java 21 was not tried with this project; Java 17 was.", stacklevel=2)
    elif version != TRIED:
        raise JavaNotFoundError(found=f"Java {version}" if version else "no version")
