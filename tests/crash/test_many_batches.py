"""Hundreds of small batches with maintenance between: every version is there once."""

from __future__ import annotations

import statistics
import time
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from crash.shop import MANY, TABLES, assert_each_is_there_once, land, make_shop

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [
    pytest.mark.crash, pytest.mark.skipif(not MANY, reason="takes long; `make crash KILLS=200` runs it"),
]  # fmt: skip

BATCHES, EVERY = 500, 25
"""How many batches are ingested, a run each, and how many of them lie between two maintenances."""
UPKEEP = {
    "compact": {"small_files": 2}, "manifests": {"at_least": 2},
    "expire": {"older_than": "1 hour", "keep": 5},
}  # fmt: skip


def test_many_batches_with_maintenance_between(tmp_path: Path) -> None:
    project = make_shop(tmp_path / "project", max_files=1)
    project.write("maintenance", UPKEEP)
    names, seconds = [f"file {n}" for n in range(BATCHES)], list[float]()
    for number, name in enumerate(names):
        land(project, number, name)
        begun = time.perf_counter()
        project.run()
        seconds.append(time.perf_counter() - begun)
        if (number + 1) % EVERY == 0:
            project.run("maintenance")
            assert_each_is_there_once(project, names[: number + 1])

    batches = Counter((r["table"], r["stage"], r["batch"]) for r in project.ops("batches"))
    assert set(batches.values()) == {1}
    for table in TABLES:
        ingested = {b for t, stage, b in batches if (t, stage) == (table, "ingestion")}
        assert ingested == set(range(1, BATCHES + 1)), table
    done = Counter(work for r in project.ops("maintenance") for work in r["actions"])
    assert done["compact"]
    first, last = statistics.median(seconds[1 : EVERY + 1]), statistics.median(seconds[-EVERY:])
    print(  # noqa: T201
        f"{BATCHES} batches: {first:.1f} s a run at first, {last:.1f} s at last; {dict(done)}"
    )
