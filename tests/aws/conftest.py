"""A project whose commands run with ``--env=aws`` on what moto plays."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import boto3
import pytest
import yaml
from harness.aws import LANDING, ProjectOnAws, moto_aws
from harness.project import DATA, ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator


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
