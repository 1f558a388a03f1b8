"""A person is erased with ``--env=aws``: from Iceberg's tables and from the landed files, all in S3."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import boto3
import pytest
import yaml
from harness.aws import LANDING, ProjectOnAws, moto_aws
from harness.soak import soaking

from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.aws

TABLE = "shop.order"
ERASED, KEPT = "customer-59289", "customer-51936"
LANDED = {
    "001.csv": f"id,customer,n\n1,{ERASED},1\n2,{KEPT},1\n3,{ERASED},1\n",
    "002.csv": f"id,customer,n\n2,{KEPT},2\n3,{KEPT},2\n4,{KEPT},1\n",
}


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectOnAws]:
    """One table of files that landed in S3, run once."""
    with moto_aws():
        made = ProjectOnAws.make(tmp_path_factory.mktemp("aws") / "project")
        source = {
            "type": "changes", "path": f"s3://{LANDING}/shop", "pattern": "*.csv", "file_format": "csv"
        }  # fmt: skip
        declared = {"source": "s", "keys": ["id"], "order_by": ["n"], "subject": "customer"}
        for name, content in {"sources": {"s": source}, "tables": {TABLE: declared}}.items():
            (made.path / f"conf/base/{name}.yml").write_text(yaml.safe_dump(content), encoding="utf-8")
        for name in ("tables", "expectations"):
            (made.path / f"conf/aws/{name}.yml").unlink(missing_ok=True)
        (made.path / "conf/base/expectations.yml").write_text("{}\n", encoding="utf-8")
        key = {"erasure": {"key": "a key of the tests, for nothing else"}}
        (made.path / "conf/aws/credentials.yml").write_text(yaml.safe_dump(key), encoding="utf-8")
        for name, text in LANDED.items():
            boto3.client("s3").put_object(Bucket=LANDING, Key=f"shop/order/{name}", Body=text.encode())
        made.run()
        yield made


def rows(project: ProjectOnAws) -> list[dict[str, Any]]:
    found = project.opened().catalog.find(TableName.parse(TABLE))
    assert found is not None
    return sorted(found.scan().to_arrow().select(["id", "customer"]).to_pylist(), key=lambda row: row["id"])


def test_no_object_names_the_person_and_a_rebuild_gives_the_same(project: ProjectOnAws) -> None:
    assert [row["customer"] for row in rows(project)] == [ERASED, KEPT, KEPT, KEPT]
    s3, frozen = boto3.client("s3"), {"Bucket": LANDING, "Key": "shop/former/001.csv"}
    s3.put_object(**frozen, Body=b"what nobody can read now", StorageClass="GLACIER")
    done = project.kedro("lakehouse", "erase", ERASED, "--yes", "--json", "--env", "aws")
    assert done.returncode == 1, (done.stdout[-3000:], done.stderr[-3000:])
    evidence = json.loads(done.stdout)
    assert evidence["found"] == []
    assert [line.partition(" ")[0] for line in evidence["pending"]] == [f"s3://{LANDING}/{frozen['Key']}"]
    assert evidence["rewritten"] == [f"s3://{LANDING}/shop/order/001.csv"]
    after = rows(project)
    assert [(row["id"], row["customer"]) for row in after] == [("2", KEPT), ("3", KEPT), ("4", KEPT)]
    project.run()
    assert rows(project) == after
    if not soaking():
        return
    s3.delete_object(**frozen)
    assert project.kedro("lakehouse", "erase", ERASED, "--yes", "--env", "aws").returncode == 0
    rebuilt = project.kedro("lakehouse", "rebuild", TABLE, "--from-landing", "--yes", "--env", "aws")
    assert rebuilt.returncode == 0, rebuilt.stderr[-3000:]
    project.run()
    assert rows(project) == after
