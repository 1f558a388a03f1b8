"""The model stands alone, and agrees with itself."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.unit

FILES = sorted(p for p in Path(__file__).parent.glob("*.py") if not p.name.startswith("test_"))


@pytest.mark.parametrize("file", FILES, ids=lambda p: p.name)
def test_the_model_imports_the_standard_library_and_itself_only(file: Path) -> None:
    imported = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(node.module or "")
        assert not (isinstance(node, ast.Name) and node.id in ("__import__", "importlib", "exec", "eval"))
    roots = {name.partition(".")[0] for name in imported}
    assert roots <= {*sys.stdlib_module_names, "model"}
    assert "importlib" not in roots


def test_the_model_is_not_empty() -> None:
    assert {p.name for p in FILES} >= {"values.py", "events.py", "fold.py", "table.py", "extracts.py"}
