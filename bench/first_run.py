"""Where the first run's time goes, beside the floor that Spark and Iceberg set.

Usage: ``.venv/bin/python bench/first_run.py`` (some three minutes; needs a set-up project).

Ours: ``kedro run`` on the bundled data into an empty lakehouse in a temporary folder. The floor: one
Spark session that reads the same landed files and writes the same number of tables (changes, current,
history of each) to Iceberg as they are, two tables side by side: no order, no checks, no bookmark.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMMIT = re.compile(r" (ingestion|current|history) batch \d+: .*\((\d+\.\d) s\)")
COLUMN_INDEX = re.compile(r"column_index: .*\((\d+\.\d) s")
PIPELINES = re.compile(r"completed successfully in (\d+\.\d) sec")


def project(folder: Path) -> Path:
    """Make a copy of the project's configuration whose lakehouse is a new folder."""
    shutil.copytree(ROOT / "conf", folder / "conf")
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "src").mkdir()
    (folder / "conf/local").mkdir(exist_ok=True)
    places = {"landing": ROOT / "data/01_raw", "cache": ROOT / ".cache"}
    lines = [f"{name}: {place}" for name, place in places.items()]
    (folder / "conf/local/globals.yml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return folder


def ours(folder: Path) -> dict[str, float]:
    """Run the project; seconds of the whole, of the pipelines, and of each stage's commits added up."""
    begun = time.perf_counter()
    command = [str(Path(sys.executable).with_name("kedro")), "run"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    seconds = {"whole": time.perf_counter() - begun}
    told = PIPELINES.search(ended.stderr)
    seconds["pipelines"] = float(told[1]) if told else 0.0
    indexed = COLUMN_INDEX.search(ended.stderr)
    seconds["column_index"] = float(indexed[1]) if indexed else 0.0
    for stage, taken in COMMIT.findall(ended.stderr):
        seconds[stage] = seconds.get(stage, 0.0) + float(taken)
    return seconds


def floor(folder: Path) -> dict[str, float]:
    """Write the landed files three times as tables, with no logic of ours."""
    os.chdir(folder)
    from kedro_lakehouse.project import found_project

    begun = time.perf_counter()
    own = found_project()
    own.catalog.ensure_namespace("floor")
    session = own.session
    seconds = {"start": time.perf_counter() - begun}
    raw = ROOT / "data/01_raw"
    frames = {path.name: session.read.parquet(str(path)) for path in sorted((raw / "dms_sample").iterdir())}
    frames["constituents"] = session.read.csv(str(raw / "sp500/constituents"), header=True)

    def write(name: str) -> None:
        for role in ("", "_changes", "_history"):
            frames[name].writeTo(f"lake.floor.{name}{role}").create()

    begun = time.perf_counter()
    with ThreadPoolExecutor(max_workers=2) as pool:
        list(pool.map(write, frames))
    seconds["writes"] = time.perf_counter() - begun
    session.stop()
    return seconds


def main() -> None:
    """Print both as a table, with the machine's load."""
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as two:
        mine = ours(project(Path(one) / "p"))
        least = floor(project(Path(two) / "p"))
    rows = [
        ("kedro run, whole process", mine["whole"]),
        ("  start: Kedro, declarations, summary", mine["whole"] - mine["pipelines"]),
        ("  pipelines (Spark's start in it)", mine["pipelines"]),
        *[
            (f"    {stage}: commits of 15 tables, added up", mine[stage])
            for stage in ("ingestion", "current", "history")
        ],
        ("    column_index", mine["column_index"]),
        ("floor: Spark's start", least["start"]),
        ("floor: 45 bare table writes", least["writes"]),
    ]
    for what, seconds in rows:
        print(f"{what:48} {seconds:6.1f} s")
    print(f"load average {os.getloadavg()[0]:.1f}, {os.cpu_count()} cores")


if __name__ == "__main__":
    main()
