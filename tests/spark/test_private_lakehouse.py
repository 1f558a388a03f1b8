"""A lakehouse that a run made: nobody but its owner reads anything of it, whoever wrote it."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from harness.project import TemporaryProject, write_parquet

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.spark

SOURCES = {"shop": {"type": "dms", "path": "${globals:landing}/shop", "sequence_column": "seq"}}
ROW = {"id": pa.int64(), "seq": pa.string()}
_READ = """
import os, sys
os.setgid(65534); os.setuid(65534)
for path in sys.argv[1:]:
    try:
        open(path, "rb").read()
    except PermissionError:
        continue
    print(path)
"""


@pytest.fixture(scope="module")
def lakehouse() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as above:  # pytest closes its own to others
        Path(above).chmod(0o755)
        tables = {"shop.item": {"source": "shop", "keys": ["id"]}}
        project = TemporaryProject.make(Path(above, "p"), SOURCES, tables)
        write_parquet(project.landing / "shop/item/LOAD1.parquet", [{"id": 1, "seq": None}], ROW)
        before = os.umask(0o022)
        try:
            project.run()
        finally:
            os.umask(before)
        yield project.path / "lakehouse"


def mode(path: Path) -> str:
    return oct(stat.S_IMODE(path.stat().st_mode))


def test_what_python_writes_and_the_folder_are_closed(lakehouse: Path) -> None:
    assert mode(lakehouse) == "0o700"
    closed = [*lakehouse.glob("catalog.db*"), *lakehouse.glob("logs/*")]
    assert {path.name.partition(".")[2] for path in closed} >= {"db", "jsonl"}
    assert {path.name: mode(path) for path in closed if mode(path) != "0o600"} == {}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_nobody_else_reads_a_file_of_it(lakehouse: Path) -> None:
    files = [str(path) for path in lakehouse.rglob("*") if path.is_file()]
    assert [name for name in files if name.endswith(".parquet")]
    # The JVM's files are as wide as its umask lets them be: the folder is what protects.
    assert {mode(lakehouse / name) for name in files} >= {"0o600", "0o644"}
    done = subprocess.run([sys.executable, "-c", _READ, *files], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    lakehouse.chmod(0o755)
    done = subprocess.run([sys.executable, "-c", _READ, *files], capture_output=True, text=True, check=False)
    assert ".parquet" in done.stdout  # what would be read without it
