"""The environment of AWS with the master of a cluster: executors read and write S3, as moto plays it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from harness.aws import ProjectOnAws, landed_on_aws
from harness.cluster import standalone
from harness.oracle import differences_from_expected
from harness.soak import only_in_soak

from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harness.cluster import Cluster

pytestmark = [pytest.mark.cluster, only_in_soak]
TABLES = ("person", "player", "sport_location", "ticket_purchase_hist")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster whose processes know moto's address, with the landed files in its S3."""
    with landed_on_aws(), standalone(tmp_path_factory.mktemp("cluster")) as made:
        yield made


def test_tables_and_landed_files_are_in_s3(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory
) -> None:
    project = ProjectOnAws.make(tmp_path_factory.mktemp("s3") / "project")
    project.declare(TABLES)
    settings = project.path / "conf/aws/spark.yml"
    with_master = settings.read_text(encoding="utf-8").replace("master: null", f"master: {cluster.url}")
    settings.write_text(with_master + "\nspark.executor.memory: 2g\n", encoding="utf-8")
    project.run()
    executors = {app.parent.name for app in cluster.folder.glob("worker-*/app-*")}
    assert executors == {"worker-1", "worker-2"}
    for table in TABLES:
        found = project.opened().catalog.find(TableName("dms_sample", table))
        assert found is not None, table
        assert found.location().startswith("s3://"), table
        assert differences_from_expected(table, found.scan().to_arrow()) == (0, 0), table
