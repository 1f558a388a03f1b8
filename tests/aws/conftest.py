"""A project whose commands run with ``--env=aws`` on what moto plays."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import boto3
import pytest
import yaml
from harness.aws import LAKEHOUSE, LANDING, moto_aws
from harness.project import DATA, ROOT

from kedro_lakehouse.project import Project

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@dataclass(frozen=True)
class ProjectOnAws:
    """A copy of the repository's configuration, whose commands run as a user types them."""

    path: Path

    def kedro(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run ``kedro ...`` in a process of its own."""
        command = [sys.executable, "-m", "kedro", *words]
        return subprocess.run(command, cwd=self.path, capture_output=True, text=True, check=False)

    def opened(self) -> Project:
        """The project as a command without Spark opens it."""
        return Project.load(str(self.path / "conf"), "aws")

    def objects(self, prefix: str) -> dict[str, str]:
        """What is stored below a prefix of the lakehouse's bucket: the tag of each object's content."""
        pages = boto3.client("s3").get_paginator("list_objects_v2").paginate(Bucket=LAKEHOUSE, Prefix=prefix)
        return {o["Key"]: o["ETag"] for page in pages for o in page.get("Contents", ())}


@pytest.fixture(scope="module")
def aws() -> Iterator[str]:
    """AWS with the landed files of the bundled DMS task."""
    with moto_aws() as address:
        s3 = boto3.client("s3")
        for file in (DATA / "01_raw/dms_sample").rglob("*.parquet"):
            s3.upload_file(str(file), LANDING, f"landing/{file.relative_to(DATA / '01_raw')}")
        yield address


@pytest.fixture(scope="module")
def project(aws: str, tmp_path_factory: pytest.TempPathFactory) -> ProjectOnAws:
    """The repository's project, without the one table whose files are not uploaded."""
    path = tmp_path_factory.mktemp("aws") / "project"
    shutil.copytree(ROOT / "conf", path / "conf", ignore=shutil.ignore_patterns("local"))
    (path / "conf/local").mkdir()
    (path / "src").mkdir()
    shutil.copy(ROOT / "pyproject.toml", path / "pyproject.toml")
    (path / ".cache").symlink_to(ROOT / ".cache")
    (path / "conf/aws/tables.yml").write_text(yaml.safe_dump({"sp500.constituents": None}), encoding="utf-8")
    return ProjectOnAws(path)
