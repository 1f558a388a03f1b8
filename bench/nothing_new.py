"""How long a run takes whose pulled sources have nothing new, and what pulled sources cost those without.

Usage: ``.venv/bin/python bench/nothing_new.py [--tables 15] [--repeats 5] [--only postgresql mariadb]
[--beside COMMIT]``. No JVM is started: there is none where a measured command looks for Java.

Each database has so many tables of one row, each pulled by windows and published once. Then nothing changes,
and the whole command is timed. More than a second passes before each run: each table has a new window, whose
rows are asked for.

``--beside`` compares this commit with another one instead, in a clone of each: what the bundled project's
commands take where nothing is new. The two take turns, each installed as a package into a folder of its own,
with the packages of this environment. The ratio is that of the medians.

Databases and packages as for ``make test-sources``. Exits 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

GOAL: Final = 3.0
"""Seconds that a run of 15 tables without news may take."""
HEAVIER: Final = 1.02
"""What a command may take of the time that it took before."""
KINDS: Final = ("postgresql", "mariadb")
KEDRO: Final = str(Path(sys.executable).with_name("kedro"))
UV: Final = str(Path(sys.executable).with_name("uv"))
RUNS: Final = (["run"], ["run", "--pipelines=ingestion,cdc_merge"])
PAUSE: Final = 1.5
"""Seconds before a run: a window ends a second before its pull."""
COMPARED: Final = {
    "import kedro_lakehouse": [sys.executable, "-c", "import kedro_lakehouse"],
    "kedro registry list": [KEDRO, "registry", "list"],
    "kedro run, nothing new": [KEDRO, "run"],
}


def timed(command: Sequence[str], folder: Path, environment: Mapping[str, str]) -> float:
    """Run a command; its seconds."""
    begun = time.perf_counter()
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    seconds = time.perf_counter() - begun
    if done.returncode:
        raise SystemExit((done.stdout + done.stderr)[-3000:])
    return seconds


def without_java(folder: Path) -> dict[str, str]:
    """An environment in which what looks for Java finds one that fails when it is started."""
    home = folder / "no-java"
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text('JAVA_VERSION="17"\n', encoding="utf-8")
    (home / "bin/java").write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    (home / "bin/java").chmod(0o755)
    return own_environment() | {"JAVA_HOME": str(home)}


def own_environment() -> dict[str, str]:
    """The environment of a user who has turned Kedro's telemetry off."""
    return {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")} | {"DO_NOT_TRACK": "1"}


def project_of(folder: Path, kind: str, count: int, running: ExitStack) -> Path:
    """A project that has published so many tables of a database."""
    from harness.databases import MariaDb, Postgres
    from harness.project import TemporaryProject
    from harness.pulled import CREDENTIALS, Shop, make_table, window

    server = (Postgres if kind == "postgresql" else MariaDb)(folder / kind)
    running.callback(server.stop)
    shop = Shop(kind, server)
    shop.let_in()
    names = [f"t{number:03}" for number in range(count)]
    make_table(shop, *names)
    shop.script("".join(f"INSERT INTO {name} VALUES (1, 'one', {shop.now});" for name in names))
    time.sleep(PAUSE)
    tables: dict[str, Any] = {f"shop.{name}": {"source": kind, **window()} for name in names}
    own = folder / f"project-{kind}"
    source = shop.source(str(own / "landing"))
    project = TemporaryProject.make(own, {kind: source}, tables, as_shipped=True)
    project.write("credentials", {kind: CREDENTIALS}, env="local")
    timed([KEDRO, "run"], own, own_environment())
    if any((state := project.state(name)) is None or state.rows != 1 for name in tables):
        raise SystemExit(f"{kind}: a table was not published")
    return own


def without_news(kinds: Sequence[str], count: int, repeats: int) -> bool:
    """Print what runs without news take; whether the goal is met."""
    met = True
    print("| source | command | median, s | least and most, s |\n| --- | --- | --- | --- |")
    # Databases run as users of their own, who must reach their folders.
    with tempfile.TemporaryDirectory(prefix="kedro-lakehouse-bench-") as made, ExitStack() as running:
        folder = Path(made)
        folder.chmod(0o755)
        environment = without_java(folder)
        for kind in kinds:
            own = project_of(folder, kind, count, running)
            for words in RUNS:
                found = []
                for _ in range(repeats):
                    time.sleep(PAUSE)
                    found.append(timed([KEDRO, *words], own, environment))
                met &= max(found) < GOAL
                what = f"{kind}, {count} tables | `kedro {' '.join(words)}`"
                spread = f"{min(found):.2f}-{max(found):.2f}"
                print(f"| {what} | {statistics.median(found):.2f} | {spread} |", flush=True)
    return met


def clone_of(folder: Path, commit: str) -> tuple[Path, dict[str, str]]:
    """A clone of a commit that has run once, and the environment in which its package is found."""
    own, packages = folder / commit / "clone", folder / commit / "packages"
    for command in (
        ["git", "clone", "--quiet", "--shared", str(ROOT), str(own)],
        ["git", "-C", str(own), "checkout", "--quiet", commit],
        [UV, "pip", "install", "--quiet", "--no-deps", "--target", str(packages), str(own)],
        [sys.executable, "-m", "compileall", "-q", str(packages)],
    ):
        subprocess.run(command, check=True)
    (own / ".cache").symlink_to(ROOT / ".cache")
    environment = own_environment() | {"PYTHONPATH": str(packages)}
    timed([KEDRO, "run"], own, environment)
    return own, environment


def compared(commits: Sequence[str], repeats: int) -> bool:
    """Print what the bundled project's commands take on two commits; whether the second is no heavier."""
    met = True
    with tempfile.TemporaryDirectory(prefix="kedro-lakehouse-bench-") as made:
        clones = [clone_of(Path(made), commit) for commit in commits]
        print(f"| command | {commits[0]}, s | {commits[1]}, s | ratio |\n| --- | --- | --- | --- |")
        for what, command in COMPARED.items():
            found: list[list[float]] = [[], []]
            for number in range(repeats):
                for which in (0, 1) if number % 2 else (1, 0):
                    found[which].append(timed(command, *clones[which]))
            before, after = map(statistics.median, found)
            met &= after / before <= HEAVIER
            print(f"| `{what}` | {before:.3f} | {after:.3f} | {after / before:.3f} |", flush=True)
    return met


def main() -> int:
    """Print the seconds."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tables", type=int, default=15, help="of each database")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--only", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--beside", metavar="COMMIT", help="compare with this commit instead")
    given = parser.parse_args()
    print(f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}")
    if given.beside:
        show = ["git", "-C", str(ROOT), "rev-parse", "--short=8", "HEAD"]
        own = subprocess.run(show, check=True, capture_output=True, text=True).stdout.strip()
        met = compared([given.beside, own], given.repeats)
    else:
        met = without_news(given.only, given.tables, given.repeats)
    return int(not met)


if __name__ == "__main__":
    sys.exit(main())
