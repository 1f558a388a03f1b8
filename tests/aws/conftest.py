"""A project whose commands run with ``--env=aws`` on what moto plays."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from harness.aws import ProjectOnAws, landed_on_aws

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def aws() -> Iterator[str]:
    """AWS with the landed files of the bundled DMS task."""
    with landed_on_aws() as address:
        yield address


@pytest.fixture(scope="module")
def project(aws: str, tmp_path_factory: pytest.TempPathFactory) -> ProjectOnAws:
    """The repository's project."""
    return ProjectOnAws.make(tmp_path_factory.mktemp("aws") / "project")
