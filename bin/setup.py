#!/usr/bin/env python3
"""Bring one lane's environment in line with its lock file; do nothing when it already is.

Runs with the standard library alone: ``python3 bin/setup.py [spark41|spark35]``.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from progress import LOOK, Progress

ROOT = Path(__file__).resolve().parent.parent
ENVIRONMENTS = {"spark41": ".venv", "spark35": ".venv-spark35"}
PYTHONS = {"spark41": ((3, 11), (3, 12), (3, 13)), "spark35": ((3, 11),)}
JAVA = 17
UNTRIED_JAVAS = {21}
JAVA_FOLDERS = (
    "/usr/lib/jvm/*17*",
    "/Library/Java/JavaVirtualMachines/*17*/Contents/Home",
    "/opt/homebrew/opt/openjdk@17",
)
PROGRESS = Progress()
GET_JAVA = "apt-get install openjdk-17-jre-headless on Debian, brew install openjdk@17 on macOS"


class SetupError(Exception):
    """What is wrong and what to do, in one sentence."""


def check_python(pythons: tuple[tuple[int, int], ...]) -> None:
    """Refuse a Python that the lock was not made for, naming one that would do."""
    if sys.version_info[:2] in pythons:
        return
    names = [f"{major}.{minor}" for major, minor in pythons]
    other = next((name for name in names if _runs(f"python{name}")), None)
    wanted = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    remedy = f"say PYTHON=python{other}, which is here" if other else "install one and say PYTHON=its path"
    found = ".".join(str(part) for part in sys.version_info[:3])
    raise SetupError(f"Python {wanted} is needed, but {sys.executable} is Python {found}: {remedy}.")


def _runs(command: str) -> bool:
    path = shutil.which(command)
    return path is not None and _quiet(path, "-c", "").returncode == 0


def _quiet(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


def java_version(java: str | Path) -> int | None:
    """Return the major version that ``java -version`` reports, or None if it reports none."""
    try:
        done = _quiet(str(java), "-version")
    except OSError:
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    return int(match.group(1)) if match and done.returncode == 0 else None


def installed_java() -> str | None:
    """Return the home of a Java 17 in one of the usual places."""
    homes = (home for pattern in JAVA_FOLDERS for home in sorted(Path("/").glob(pattern[1:])))
    return next((str(home.resolve()) for home in homes if java_version(home / "bin" / "java") == JAVA), None)


def check_java() -> None:
    """Refuse a Java that Spark 4.1 does not run on, naming what was found and the way to Java 17."""
    home = os.environ.get("JAVA_HOME")
    if home:
        java, where = str(Path(home) / "bin" / "java"), f"JAVA_HOME is {home}"
    else:
        java = shutil.which("java") or ""
        where = f"java on PATH is {java}" if java else "no java is on PATH and JAVA_HOME is not set"
    version = java_version(java) if java else None
    if version == JAVA:
        return
    if version in UNTRIED_JAVAS:
        PROGRESS.say(f"Warning: {java} is Java {version}; this project was tried on Java {JAVA} only.")
        return
    if java:
        where += f", which is Java {version}" if version else ", where no working java was found"
    here = installed_java()
    if here:
        remedy = f"a Java {JAVA} is installed, so run `export JAVA_HOME={here}`"
    else:
        remedy = f"install it ({GET_JAVA}) or set JAVA_HOME to one"
    raise SetupError(f"Java {JAVA} is needed, but {where}; {remedy}.")


def run(*command: str | Path, doing: str) -> None:
    """Run ``command`` from the project's folder; what it says is shown if it fails."""
    env = dict(os.environ, UV_PYTHON_DOWNLOADS="never")
    env.setdefault("UV_HTTP_TIMEOUT", "180")
    for name in ("VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH"):
        env.pop(name, None)
    words = [str(part) for part in command]
    done = _awaited(words, env)
    if done.returncode:
        PROGRESS.drop()
        sys.stderr.write(done.stdout)
        raise SetupError(f"{doing} failed (exit code {done.returncode}, see the lines above).")


def _awaited(words: list[str], env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; meanwhile the line of progress shows that it is at work."""
    with subprocess.Popen(
        words,
        cwd=ROOT,
        env=env,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    ) as process:
        while True:
            try:
                told, _ = process.communicate(timeout=LOOK)
            except subprocess.TimeoutExpired:
                PROGRESS.beat()
            else:
                return subprocess.CompletedProcess(words, process.returncode, told)


class Environment:
    """One lane's virtual environment, its lock file and the stamp that says what is in it."""

    def __init__(self, lane: str) -> None:
        self.name = ENVIRONMENTS[lane]
        self.folder = ROOT / self.name
        self.python = self.folder / "bin" / "python"
        self.uv = self.folder / "bin" / "uv"
        self.uv_to_be_had = True
        self.stamp = self.folder / ".setup.json"
        self.lock = ROOT / "requirements" / f"{lane}.txt"
        if not self.lock.is_file():
            raise SetupError(f"The lane {lane} has no lock file: requirements/{lane}.txt is missing.")

    def wanted(self) -> dict[str, str]:
        """Return what the stamp holds when nothing is left to do."""
        return {
            "folder": str(self.folder),  # a moved environment's scripts point to the old place
            "python": ".".join(str(part) for part in sys.version_info[:2]),
            "lock": _sha256(self.lock),
            "project": _sha256(ROOT / "pyproject.toml"),
        }

    def found(self) -> dict[str, str]:
        """Return the stamp, empty when there is none or the interpreter is gone."""
        try:
            stamp = json.loads(self.stamp.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return stamp if self.python.exists() and isinstance(stamp, dict) else {}

    def create(self) -> None:
        """Make the virtual environment anew."""
        if importlib.util.find_spec("ensurepip") is None:
            raise SetupError(f"{sys.executable} lacks the venv module: run apt-get install python3-venv.")
        PROGRESS.open(f"Creating {self.name} with Python {sys.version.split()[0]} (5 to 20 s) ...")
        run(sys.executable, "-m", "venv", "--clear", self.folder, doing=f"Creating {self.name}")
        PROGRESS.close()

    def pip(self, *arguments: str | Path, doing: str) -> None:
        """Run the environment's own pip."""
        run(self.python, "-m", "pip", "--quiet", "--disable-pip-version-check", *arguments, doing=doing)

    def ensure_uv(self) -> bool:
        """Install uv when it is missing; False where it cannot be had, and pip does its work."""
        if self.uv.exists() or not self.uv_to_be_had:
            return self.uv_to_be_had
        words = [str(self.python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        done = _awaited([*words, "--require-hashes", "-r", str(ROOT / "bin" / "uv.txt")])
        if done.returncode:
            self.uv_to_be_had = False
            reason = (done.stdout.strip().splitlines() or ["no reason given"])[-1]
            PROGRESS.say(
                f"uv cannot be installed here ({reason[:200]}); pip takes its place, which is slower."
            )
        return self.uv_to_be_had

    def sync(self) -> None:
        """Install exactly the lock's packages, each checked against its hash."""
        count = len(re.findall(r"^[A-Za-z0-9][\w.-]*==", self.lock.read_text(encoding="utf-8"), re.MULTILINE))
        PROGRESS.open(f"Installing {count} packages into {self.name} (2.3 GB, 15 s to 3 minutes) ...")
        with_uv = self.ensure_uv()
        doing = f"Installing {self.lock.relative_to(ROOT)}"
        if with_uv:
            flags = ("-q", "--require-hashes", "--python", self.python)
            run(self.uv, "pip", "sync", *flags, self.lock, doing=doing)
            self.ensure_uv()
        else:
            self.pip("install", "--require-hashes", "-r", self.lock, doing=doing)
        PROGRESS.close()

    def install_project(self) -> None:
        """Install this checkout, editable, without touching any other package."""
        PROGRESS.open("Installing this project, editable (5 s) ...")
        if self.ensure_uv():
            tools = ("--build-constraints", ROOT / "bin" / "build.txt")
            flags = ("-q", "--no-deps", "--python", self.python, *tools)
            run(self.uv, "pip", "install", *flags, "-e", ".", doing="Installing this project")
        else:
            self.pip("install", "--no-deps", "-e", ".", doing="Installing this project")
        PROGRESS.close()

    def bring_up(self) -> None:
        """Do what differs between stamp and wanted, stamping after each step that is done."""
        wanted, found = self.wanted(), self.found()
        if found == wanted:
            return
        if any(found.get(part) != wanted[part] for part in ("folder", "python")):
            self.create()
            found = {part: wanted[part] for part in ("folder", "python")}
            self._write(found)
        if found.get("lock") != wanted["lock"]:  # a sync also removes the editable install
            self._write({part: wanted[part] for part in ("folder", "python")})
            self.sync()
            found = {part: wanted[part] for part in ("folder", "python", "lock")}
            self._write(found)
        if found.get("project") != wanted["project"]:
            self.install_project()
            self._write(wanted)

    def _write(self, stamp: dict[str, str]) -> None:
        fresh = self.stamp.with_suffix(".new")
        fresh.write_text(json.dumps(stamp, indent=1) + "\n", encoding="utf-8")
        fresh.replace(self.stamp)


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main() -> int:
    """Set up the named lane; 1 with one sentence on stderr where that cannot be done."""
    parser = argparse.ArgumentParser(description="Set up one lane's environment from its hashed lock file.")
    parser.add_argument(
        "lane", nargs="?", default="spark41", choices=sorted(ENVIRONMENTS), help="default: spark41"
    )
    lane = parser.parse_args().lane
    try:
        check_python(PYTHONS[lane])
        check_java()
        Environment(lane).bring_up()
    except SetupError as error:
        PROGRESS.drop()
        print(f"setup: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
