"""The examples of a third party's sources keep the contract, are short, and are crawled as ours are."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from harness.commands import answer, call
from harness.project import ROOT, TemporaryProject, script

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["answer", "call"]

EXAMPLE = Path(ROOT / "examples/sqlite-source")
sys.path.append(str(EXAMPLE / "src"))

pytestmark = pytest.mark.unit
TestSqlite = script(EXAMPLE / "tests/test_sqlite_source.py").TestSqlite


def test_the_whole_source_has_fewer_than_eighty_lines() -> None:
    lines = (EXAMPLE / "src/lakehouse_sqlite/__init__.py").read_text(encoding="utf-8").splitlines()
    written = [line for line in lines if line.strip() and not line.startswith(("import", "from", "    from"))]
    assert len(written) < 80


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> TemporaryProject:
    """A project in whose environment the plug-in is registered."""
    about = tmp_path / "installed/lakehouse_sqlite-0.1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: lakehouse-sqlite\nVersion: 0.1.0\n")
    registered = "[kedro_lakehouse.sources]\nsqlite = lakehouse_sqlite:SqliteSource\n"
    (about / "entry_points.txt").write_text(registered)
    monkeypatch.syspath_prepend(tmp_path / "installed")
    file = tmp_path / "shop.db"
    run(file, "CREATE TABLE item (id INTEGER PRIMARY KEY, name TEXT, gone TEXT)")
    run(file, "CREATE TABLE note (text TEXT)")
    sources = {"shop": {"type": "sqlite", "database": str(file), "path": str(tmp_path / "landed")}}
    tables = {"own.goods": {"source": "shop", "entity": "item", "keys": ["id"]}}
    return TemporaryProject.make(tmp_path / "project", sources, tables)


def run(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as base, base:
        base.execute(statement)


def test_a_crawl_proposes_what_is_declared_and_what_is_not(
    call: Callable[..., Any], project: TemporaryProject
) -> None:
    done = call("crawl", "shop")
    assert done.exit_code == 0, done.output
    assert yaml.safe_load(done.stdout) == {
        "own.goods": {"source": "shop", "entity": "item", "keys": ["id"]},
        "shop.note": {"source": "shop", "entity": "note", "write": "replace"},
    }


def test_a_second_crawl_reports_what_changed(
    answer: Callable[..., Any], project: TemporaryProject, tmp_path: Path
) -> None:
    assert answer("crawl", "shop")["changes"] == []
    file = tmp_path / "shop.db"
    for statement in ("ALTER TABLE item DROP COLUMN gone", "ALTER TABLE item ADD COLUMN size REAL",
                      "DROP TABLE note", "CREATE VIEW names AS SELECT name FROM item"):  # fmt: skip
        run(file, statement)
    changes = answer("crawl", "shop")["changes"]
    assert sorted((one["table"], one["words"]) for one in changes) == [
        ("own.goods", "column gone is gone: TEXT"), ("own.goods", "column size is new: REAL"),
        ("shop.names", "the table is new"), ("shop.note", "the table is gone"),
    ]  # fmt: skip
