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


def require_java() -> None:
    """Raise unless Java 17 is there; let 21 pass with a warning.

    Raises:
        JavaNotFoundError: No Java, or one that Spark was not tried with.
    """
    command = java_command()
    if command is None:
        raise JavaNotFoundError(found="none")
    shown = subprocess.run([command, "-version"], capture_output=True, text=True, check=False)  # noqa: S603
    version = major_version(shown.stderr + shown.stdout)
    if version == LET_THROUGH:
        warnings.warn("Java 21 was not tried with this project; Java 17 was.", stacklevel=2)
    elif version != TRIED:
        raise JavaNotFoundError(found=f"Java {version}" if version else "no version")
