"""Write down where the minutes of the tests go, from what each lane recorded of its last run.

``make test`` and the other lanes leave a JUnit file in ``.cache/tests``. From these this program writes
``tests/seconds.json``, by which the tests are dealt out to two workers (the longest file first), and
``docs/reference/test-times.md``.
"""

from __future__ import annotations

import json
import subprocess
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RECORDED = ROOT / ".cache/tests"
SECONDS = ROOT / "tests/seconds.json"
PAGE = ROOT / "docs/reference/test-times.md"
LANES = (
    "test",
    "test-slow",
    "test-delta",
    "test-spark35",
    "test-hudi",
    "test-aws",
    "test-cluster",
    "test-streams",
    "test-sources",
)
FILES, TESTS = 12, 30

HEAD = """# Where the minutes of the tests go

Made by `.venv/bin/python bench/lane_times.py` from the last run of each lane, on commit {commit}.
Two workers share two cores. A file's seconds are those of its tests and their set-up on one of them.
"""


def recorded(lane: str) -> ET.Element | None:
    """The suite that a lane ran last, as JUnit tells it."""
    file = RECORDED / f"{lane}.xml"
    return ET.parse(file).getroot().find("testsuite") if file.is_file() else None  # noqa: S314 - our own


def table(head: tuple[str, str], rows: list[tuple[str, float]]) -> list[str]:
    """The lines of a table with seconds in its second column."""
    return [f"| {head[0]} | {head[1]} |", "| --- | ---: |", *(f"| `{n}` | {s:.0f} |" for n, s in rows), ""]


def main() -> None:
    """Write both files."""
    head = ["git", "rev-parse", "--short", "HEAD"]
    commit = subprocess.run(head, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()
    by_test: Counter[str] = Counter()
    by_file: Counter[str] = Counter()
    lines = [HEAD.format(commit=commit)]
    for lane in LANES:
        suite = recorded(lane)
        if suite is None:
            continue
        files: Counter[str] = Counter()
        for case in suite.iter("testcase"):
            file, seconds = case.attrib["file"], float(case.attrib["time"])
            files[file] += seconds
            by_test[f"{file}::{case.attrib['name']}"] += seconds
        lines += [
            f"## make {lane}" if lane != "test-hudi" else "## make test-spark35, its part on Hudi", "",
            f"{suite.attrib['tests']} tests in {float(suite.attrib['time']) / 60:.1f} minutes.", "",
            *table(("file", "seconds"), files.most_common(FILES)),
        ]  # fmt: skip
        by_file |= files
    lines += ["## The longest tests of all", "", *table(("test", "seconds"), by_test.most_common(TESTS))]
    SECONDS.write_text(
        json.dumps({f: round(s) for f, s in sorted(by_file.items()) if s >= 1}, indent=1) + "\n",
        encoding="utf-8",
    )
    PAGE.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
