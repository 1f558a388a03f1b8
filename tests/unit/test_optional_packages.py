"""mypy judges the code alike whether the packages of the optional lanes are installed or not.

CI checks the types before it installs what `make test-streams` and `make test-sources` bring; a developer's
environment has them. So pyproject.toml lists the optional packages, and mypy follows none of them.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from fnmatch import fnmatch
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from harness.project import TemporaryProject, environment

pytestmark = pytest.mark.unit

ROOT = Path(__file__).parents[2]


def imported() -> set[str]:
    """The top-level modules that the package imports anywhere, also inside functions."""
    names: set[str] = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
                names.add(node.module)
    return {name.partition(".")[0] for name in names} - set(sys.stdlib_module_names) - {"kedro_lakehouse"}


def of_the_default_setup() -> set[str]:
    """The top-level modules of the packages that `make run` installs."""
    locked = set(re.findall(r"^([\w.-]+)==", (ROOT / "requirements/spark41.txt").read_text(), re.MULTILINE))
    return {
        module
        for module, packages in packages_distributions().items()
        if any(re.sub(r"[-_.]+", "-", package).lower() in locked for package in packages)
    }


def test_optional_packages_are_not_followed_by_mypy() -> None:
    overrides = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["mypy"]["overrides"]
    listed = [
        pattern
        for override in overrides
        if override.get("ignore_missing_imports")
        for pattern in override["module"]
    ]
    optional = imported() - of_the_default_setup()
    assert {"pymongo", "confluent_kafka"} <= optional
    assert {
        name for name in optional if not any(fnmatch(f"{name}.x", pattern) for pattern in listed)
    } == set()


LOADED = """
import sys
from kedro_lakehouse.ingestion.landing import has_news, landed_batches
from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import Project

table = Project.load(sys.argv[1], None).bind(TableName.parse("a.b"))
assert not has_news(table) and list(landed_batches(table)) == []
places = ("kedro_lakehouse.pulls", "kedro_lakehouse.decoders.bson")
print([name for name in sys.modules if name.startswith(places)])
"""


def test_a_run_without_pulled_sources_imports_nothing_that_pulls(tmp_path: Path) -> None:
    (tmp_path / "landing/b").mkdir(parents=True)
    source = {"type": "changes", "path": str(tmp_path / "landing"), "op_column": "op"}
    table = {"source": "files", "keys": ["id"], "order_by": ["n"]}
    project = TemporaryProject.make(tmp_path / "project", {"files": source}, {"a.b": table})
    command = [sys.executable, "-c", LOADED, str(project.path / "conf")]
    done = subprocess.run(
        command, cwd=project.path, env=environment(), capture_output=True, text=True, check=False
    )
    assert done.stdout == "[]\n", done.stderr[-2000:]
