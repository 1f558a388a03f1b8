"""What a job needs beside its definition: the wheel, the configuration, and the script that is started."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from importlib.metadata import requires
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from packaging.requirements import Requirement

from kedro_lakehouse.deploy.platforms import line_of
from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.session.line import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Mapping

ENTRY: Final = "main.py"
CONF: Final = "conf.zip"
_SCRIPT: Final = '''\
"""Start the packaged project: the platform runs this file."""

from kedro_lakehouse.deploy.job import main

main()
'''
EXTRAS_OF_JOBS: Final = ("aws", "delta", "quality")
EXTRAS_OF_THE_SERVICE: Final = ("aws", "delta", "service")
_OF_THE_PLATFORM: Final = ("hadoop-aws", "software.amazon", "com.amazonaws", "wildfly")


def write_entry(folder: Path) -> Path:
    """Write the script that Glue or EMR starts."""
    path = folder / ENTRY
    path.write_text(_SCRIPT, encoding="utf-8")
    return path


def pack_conf(conf: Path, to: Path) -> Path:
    """Pack the configuration, without the folder of one's own machine and without credentials.

    The same files make the same archive, byte by byte.
    """
    path = to / CONF
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(conf.rglob("*")):
            inside = file.relative_to(conf)
            if not file.is_file() or inside.parts[0] == "local" or "credentials" in file.name.lower():
                continue
            entry = zipfile.ZipInfo(f"conf/{inside.as_posix()}", (1980, 1, 1, 0, 0, 0))
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, file.read_bytes())
    return path


def build_wheel(root: Path, to: Path) -> Path:
    """Build the project's wheel, as `kedro package` does.

    Raises:
        UnsupportedError: The build failed; its last line says why.
    """
    command = [sys.executable, "-m", "build", "--wheel", "--outdir", str(to)]
    if find_spec("uv") is not None:
        command += ["--installer", "uv"]
    done = subprocess.run([*command, str(root)], capture_output=True, text=True, check=False)  # noqa: S603
    if done.returncode != 0:
        last = (done.stdout + done.stderr).strip().splitlines()[-1:] or [""]
        raise UnsupportedError(
            what=f"The project's wheel cannot be built: {last[0].strip()}",
            remedy="Correct it, or name a wheel: `kedro lakehouse deploy --wheel FILE`.",
        )
    return max(to.glob("*.whl"), key=lambda file: file.stat().st_mtime_ns)


def needed_modules(*extras: str) -> list[str]:
    """What the package needs on AWS beyond what its wheel brings by itself, pinned as its extras are.

    The same on each line of Spark: PySpark, and with it all that the locks differ in, is the platform's.
    """
    found = []
    for text in requires("kedro-lakehouse") or ():
        needed = Requirement(text)
        if needed.marker is not None and any(needed.marker.evaluate({"extra": e}) for e in extras):
            found.append(f"{needed.name}{needed.specifier}")
    return sorted(found)


def own_jars(spark_conf: Mapping[str, str]) -> list[Path]:
    """The resolved jars of an environment that a platform with S3 of its own has to be given.

    Raises:
        UnsupportedError: The jars were not resolved yet.
        JarRefusedError: One of them is not the one that is pinned.
    """
    from kedro_lakehouse.session.jars import checked_jars, known_jars

    if not known_jars(spark_conf):
        line = line_of(spark_conf)
        made = "jars-aws" if line == DEFAULT else f"jars-{line}"
        raise UnsupportedError(
            what="The jars of this environment are not here yet.",
            remedy=f"Fetch them: `make {made}`, or `kedro run` once in this environment.",
        )
    files = map(Path, checked_jars(spark_conf))
    return [file for file in files if not any(part in file.name for part in _OF_THE_PLATFORM)]
