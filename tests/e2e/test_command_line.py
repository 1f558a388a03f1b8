"""What a user types: ``kedro run`` as a process of its own, its exit status, its words, its retry command."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from harness.project import TemporaryProject, write_parquet

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.e2e

KEDRO = str(Path(sys.executable).with_name("kedro"))
SOURCES = {
    "shop": {"type": "dms", "path": "${globals:landing}/shop", "sequence_column": "seq"},
    "gone": {"type": "dms", "path": "${globals:landing}/not_mounted", "sequence_column": "seq"},
}
TABLES = {
    "shop.item": {"source": "shop", "keys": ["id"], "history": True},
    "shop.order": {"source": "gone", "keys": ["id"]},
}
ROW = {"id": pa.int64(), "name": pa.string(), "seq": pa.string()}


def kedro(project: TemporaryProject, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [KEDRO, *words], cwd=project.path, capture_output=True, text=True, check=False, env=os.environ | env
    )


def test_a_failed_table_is_named_and_its_retry_command_works(tmp_path: Path) -> None:
    """The project's folder has spaces in its name, as a laptop's may: Java gets it among options."""
    project = TemporaryProject.make(tmp_path / "my own lake", SOURCES, TABLES)
    write_parquet(
        project.landing / "shop/item/LOAD00000001.parquet", [{"id": 1, "name": "a", "seq": None}], ROW
    )

    failed = kedro(project, "run")
    assert failed.returncode == 1
    assert "SOURCE_NOT_FOUND" in failed.stdout
    assert "[TABLES_FAILED] 1 table failed; the rest are done." in failed.stderr
    assert failed.stderr.count("there is nothing at") == 1
    assert "Traceback" not in failed.stdout + failed.stderr
    assert [r["name"] for r in project.rows("shop.item")] == ["a"]
    (run,) = project.ops("runs")
    assert (run["status"], [(f["table"], f["code"]) for f in run["failed"]]) == (
        "failed", [("shop.order", "SOURCE_NOT_FOUND")],
    )  # fmt: skip

    write_parquet(
        project.landing / "not_mounted/order/LOAD00000001.parquet", [{"id": 7, "name": "o", "seq": None}], ROW
    )
    found = re.search(r"Retry only what failed: kedro (run \S+)", failed.stderr)
    assert found is not None
    assert kedro(project, *found[1].split()).returncode == 0
    assert [r["id"] for r in project.rows("shop.order")] == [7]
    assert [r["batch"] for r in project.ops("batch_ledger") if r["table"] == "shop.item"] == [1]

    listed = kedro(project, "lakehouse", "tables", "--json")
    assert listed.returncode == 0, listed.stderr
    assert {t["table"] for t in json.loads(listed.stdout)} == set(TABLES)


def test_without_java_one_sentence_says_so(
    make_project: Callable[..., TemporaryProject], tmp_path: Path
) -> None:
    project = make_project(SOURCES, TABLES)
    ended = kedro(project, "run", JAVA_HOME=str(tmp_path / "no-java"))
    assert ended.returncode == 1
    assert ended.stderr.count("JAVA_NOT_FOUND") == 1
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    "command", [["registry", "list"], ["catalog", "resolve-patterns"], ["lakehouse", "plugins"]]
)
def test_looking_at_the_project_starts_no_jvm(
    make_project: Callable[..., TemporaryProject], tmp_path: Path, command: list[str]
) -> None:
    project = make_project(SOURCES, TABLES)
    ended = kedro(project, *command, JAVA_HOME=str(tmp_path / "no-java"))
    assert ended.returncode == 0, ended.stderr
