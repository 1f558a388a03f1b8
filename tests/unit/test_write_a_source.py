"""The example of a third party's source keeps the contract, and is short."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from harness.project import ROOT, script

EXAMPLE = Path(ROOT / "examples/sqlite-source")
sys.path.append(str(EXAMPLE / "src"))

pytestmark = pytest.mark.unit
TestSqlite = script(EXAMPLE / "tests/test_sqlite_source.py").TestSqlite


def test_the_whole_source_has_fewer_than_eighty_lines() -> None:
    lines = (EXAMPLE / "src/lakehouse_sqlite/__init__.py").read_text(encoding="utf-8").splitlines()
    written = [line for line in lines if line.strip() and not line.startswith(("import", "from", "    from"))]
    assert len(written) < 80
