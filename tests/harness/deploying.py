"""A copy of the repository's project, and ``kedro lakehouse deploy`` run in it."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from click.testing import CliRunner, Result

from harness.project import ROOT
from kedro_lakehouse.cli.lakehouse import lakehouse
from kedro_lakehouse.project import _Active

if TYPE_CHECKING:
    from pathlib import Path


def copy_to_deploy(folder: Path, **of_aws: Any) -> Path:
    """Copy what is deployed into a folder; ``of_aws`` are files of conf/aws. Gives the wheel."""
    shutil.copytree(ROOT / "conf", folder / "conf", ignore=shutil.ignore_patterns("local"))
    shutil.copy(ROOT / "pyproject.toml", folder)
    (folder / "src").mkdir()
    for name, content in of_aws.items():
        (folder / f"conf/aws/{name}.yml").write_text(yaml.safe_dump(content))
    wheel = folder / "kedro_lakehouse-0.1.0-py3-none-any.whl"
    wheel.write_bytes(b"a wheel")
    return wheel


def deployed(folder: Path, *words: str) -> Result:
    """Run the command in a project's folder; it must not fail."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(sys, "path", list(sys.path))
        patch.setattr(_Active, "project", None)
        told = CliRunner().invoke(lakehouse, ["deploy", *words])
    assert told.exit_code == 0, told.output
    return told
