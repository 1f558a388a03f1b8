"""One broken table of fifty: the others are done, the process says so by its status, and says what to run."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from harness.planned import as_planned
from harness.project import write_parquet
from harness.soak import only_in_soak

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.project import TemporaryProject

pytestmark = [pytest.mark.e2e, only_in_soak]

KEDRO = str(Path(sys.executable).with_name("kedro"))
TABLES = {f"shop.t{n:02}": {"source": "shop", "keys": ["id"]} for n in range(50)}
BROKEN = "shop.t17"
ROW = {"id": pa.int64(), "name": pa.string(), "seq": pa.string()}


def test_one_broken_table_of_fifty_stops_no_other(make_project: Callable[..., TemporaryProject]) -> None:
    source = {"type": "dms", "path": "${globals:landing}/shop", "sequence_column": "seq"}
    project = make_project({"shop": source}, TABLES)
    for n, name in enumerate(TABLES):
        file = project.landing / "shop" / name.partition(".")[2] / "LOAD00000001.parquet"
        write_parquet(file, [{"id": n, "name": "a", "seq": None}], ROW)
        if name == BROKEN:
            file.write_bytes(file.read_bytes()[:-40])

    with as_planned(project):
        failed = subprocess.run([KEDRO, "run"], cwd=project.path, capture_output=True, text=True, check=False)
    assert failed.returncode == 1
    assert "Traceback" not in failed.stdout + failed.stderr
    done = {name for n, name in enumerate(TABLES) if [r["id"] for r in project.rows(name)] == [n]}
    assert set(TABLES) - done == {BROKEN}

    write_parquet(
        project.landing / "shop/t17/LOAD00000001.parquet", [{"id": 17, "name": "a", "seq": None}], ROW
    )
    found = re.search(r"Retry only what failed: kedro (run \S+)", failed.stderr)
    assert found is not None
    assert found[1] == f"run --namespaces={BROKEN}"
    again = subprocess.run(
        [KEDRO, *found[1].split()], cwd=project.path, capture_output=True, text=True, check=False
    )
    assert again.returncode == 0, again.stderr
    assert [r["id"] for r in project.rows(BROKEN)] == [17]
