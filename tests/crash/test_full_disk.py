"""A disk that fills up while a run writes: nothing is torn, and with room the next run mends it."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from crash.shop import MANY, SOURCES
from crash.test_kills import STAGES, TABLE, assert_whole, land
from harness.project import TemporaryProject

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.crash

STEPS = 16
LOAD = 90
ROWS = {"ingestion": LOAD + 3, "current": LOAD, "history": LOAD + 2}


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A small disk, in memory."""
    if not MANY:
        pytest.skip("it takes minutes: `make crash KILLS=200` fills a disk")
    folder = tmp_path_factory.mktemp("disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=96m", "tmpfs", str(folder)]
    if os.geteuid() or subprocess.run(mount, check=False).returncode:
        pytest.skip("no disk can be mounted here: run it as root, where mount is allowed")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


def room(disk: Path) -> int:
    """How many bytes are free."""
    found = os.statvfs(disk)
    return found.f_bavail * found.f_frsize


@pytest.fixture(scope="module")
def needed(disk: Path) -> int:
    """How many bytes a whole run needs."""
    project = TemporaryProject.make(disk / "roomy", SOURCES, {"shop.item": TABLE})
    land(project, LOAD)
    before = room(disk)
    project.run()
    after = room(disk)
    shutil.rmtree(project.path)
    return before - after


@pytest.mark.parametrize("step", range(STEPS) if MANY else [STEPS // 2])
def test_a_disk_that_fills_up(disk: Path, needed: int, step: int) -> None:
    project = TemporaryProject.make(disk / f"project{step}", SOURCES, {"shop.item": TABLE})
    land(project, LOAD)
    ballast = disk / "ballast"
    with ballast.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, room(disk) - needed * step // STEPS)
    with pytest.raises(Exception) as failed:  # noqa: PT011 - whatever the part says that has no room
        project.run()
    ballast.unlink()
    reader = TemporaryProject(project.path)
    found = {stage: len(reader.rows(f"shop.item{suffix}")) for stage, suffix in STAGES.items()}
    print(f"room for {step}/{STEPS}: {found}; {type(failed.value).__name__}: {failed.value}"[:600])  # noqa: T201
    for stage, rows in found.items():
        assert rows in (0, ROWS[stage])
    project.run()
    assert_whole(project, LOAD)
    shutil.rmtree(project.path)
