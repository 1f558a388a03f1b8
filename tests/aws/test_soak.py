"""The extracts with ``--env=aws``: as of each of their times the history is that extract."""

from __future__ import annotations

from typing import TYPE_CHECKING

import boto3
import pytest
from harness.aws import LANDING, ProjectOnAws, moto_aws
from harness.oracle import extracts_differing
from harness.project import DATA
from harness.soak import only_in_soak

from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.aws, only_in_soak]


@pytest.fixture(scope="module")
def aws() -> Iterator[str]:
    """AWS with the landed extracts."""
    with moto_aws() as address:
        s3 = boto3.client("s3")
        for file in (DATA / "01_raw/sp500").rglob("*.*"):
            s3.upload_file(str(file), LANDING, f"landing/{file.relative_to(DATA / '01_raw')}")
        yield address


def test_as_of_each_extract_the_history_is_that_extract(project: ProjectOnAws) -> None:
    project.declare([], extracts=True)
    project.run()
    found = project.opened().catalog.find(TableName("sp500", "constituents_history"))
    assert found is not None
    assert extracts_differing(found.scan().to_arrow()) == ([], 189, 21)
