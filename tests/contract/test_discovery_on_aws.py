"""Discovery over a bucket and over the Glue Data Catalog, on moto; no JVM is started."""

from __future__ import annotations

import multiprocessing
import os
import tarfile
from concurrent.futures import ProcessPoolExecutor

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from harness.aws import LANDING, REGION, moto_aws
from harness.places import HUDI
from harness.project import TemporaryProject
from pyiceberg.catalog import load_catalog

from kedro_lakehouse.config.discovery import PlaceConfig
from kedro_lakehouse.discovery.look import look_over

pytestmark = [pytest.mark.contract, pytest.mark.aws]

ROOT = f"s3://{LANDING}/lake"
SALE = pa.table({"sale_id": pa.array([1, 2, 3], pa.int64()), "email": ["a@b.org", "c@d.org", "e@f.org"]})


@pytest.fixture(scope="module", autouse=True)
def aws(tmp_path_factory):
    with moto_aws() as address:
        s3 = boto3.client("s3")
        s3.put_object(Bucket=LANDING, Key="lake/orders/orders.csv", Body=b"id;total\n1;2.5\n2;3.5\n")
        s3.put_object(Bucket=LANDING, Key="lake/orders/README.md", Body=b"no data")
        s3.put_object(Bucket=LANDING, Key="lake/events/e.jsonl", Body=b'{"id": 1}\n{"id": 2}\n')
        folder = tmp_path_factory.mktemp("s3")
        pq.write_table(pa.table({"trip": [1, 2]}), folder / "trip.parquet")
        for day in (1, 2):
            s3.upload_file(
                str(folder / "trip.parquet"), LANDING, f"lake/trips/day=2026-01-0{day}/part-0.parquet"
            )
        with tarfile.open(HUDI / "before.tar.gz") as packed:
            packed.extractall(folder, filter="data")
        for file in (folder / "stock").rglob("*"):
            if file.is_file():
                s3.upload_file(str(file), LANDING, f"lake/hudi/{file.relative_to(folder)}")
        options = {"AWS_ALLOW_HTTP": "true", "AWS_ENDPOINT_URL": address}
        write_deltalake(f"{ROOT}/stock", pa.table({"item": [1, 2, 3]}), storage_options=options)
        glue = load_catalog("glue", **properties(address))
        glue.create_namespace("sales")
        table = glue.create_table("sales.sale", SALE.schema, location=f"{ROOT}/iceberg/sale")
        table.append(SALE)
        stored = {"Location": f"{ROOT}/trips/", "Columns": [{"Name": "trip", "Type": "bigint"}]}
        days = [{"Name": "day", "Type": "date"}]
        hive = {"Name": "trips", "PartitionKeys": days, "StorageDescriptor": stored}
        client = boto3.client("glue")
        client.create_table(DatabaseName="sales", TableInput=hive)
        client.create_table(DatabaseName="sales", TableInput={"Name": "a_view", "TableType": "VIRTUAL_VIEW"})
        yield address


def properties(address):
    return {
        "type": "glue", "glue.endpoint": address, "glue.region": REGION, "s3.endpoint": address,
        "s3.region": REGION, "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
    }  # fmt: skip


def test_a_bucket_is_looked_over_as_a_folder_is():
    # In a process of its own: delta-rs holds Python's lock while it waits for moto, which is in this one.
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as apart:
        looked = apart.submit(look_over, [PlaceConfig(path=ROOT, namespace="lake")]).result(timeout=60)
    found = {one.name: one for one in looked}
    told = {name: (one.kind, one.rows, one.location) for name, one in found.items()}
    assert told == {
        "lake.orders": ("csv", 2, f"{ROOT}/orders"),
        "lake.events": ("json", 2, f"{ROOT}/events"),
        "lake.trips": ("parquet", 4, f"{ROOT}/trips"),
        "lake.stock": ("delta", 3, f"{ROOT}/stock"),
        "lake.hudi_stock": ("hudi", 6, f"{ROOT}/hudi/stock"),
        "lake.iceberg_sale": ("iceberg", 3, f"{ROOT}/iceberg/sale"),
    }
    assert [(c.name, c.type) for c in found["lake.orders"].columns] == [("id", "bigint"), ("total", "double")]
    assert found["lake.trips"].partitions == ("day",)
    assert found["lake.stock"].keys == (("item",),)
    assert found["lake.hudi_stock"].changed is not None


def test_the_glue_catalog_tells_its_tables_of_every_format(aws):
    place = PlaceConfig(catalog=properties(aws), databases=["sales"])
    found = {one.name: one for one in look_over([place])}
    assert {name: (one.kind, one.rows) for name, one in found.items()} == {
        "sales.sale": ("iceberg", 3), "sales.trips": ("parquet", 4),
    }  # fmt: skip
    assert {c.name: c.personal for c in found["sales.sale"].columns} == {
        "sale_id": None, "email": "its name says so: email",
    }  # fmt: skip
    assert look_over([PlaceConfig(catalog=properties(aws), exclude=["sales.*"])]) == []


def test_the_pipeline_keeps_versions_of_what_lies_in_a_bucket(aws, tmp_path):
    project = TemporaryProject.make(tmp_path / "project", sources={}, tables={})
    project.write("discovery", {"places": [{"path": f"{ROOT}/orders"}, {"path": f"{ROOT}/iceberg"}]})
    for _ in range(2):
        project.run("discovery")
        rows = project.ops("discovered")
        assert sorted((row["table"], row["version"]) for row in rows) == [
            ("found.orders", 1),
            ("found.sale", 1),
        ]
    body = b"id;total;note\n1;2.5;x\n"
    boto3.client("s3").put_object(Bucket=LANDING, Key="lake/orders/orders.csv", Body=body)
    project.run("discovery")
    (new,) = [row for row in project.ops("discovered") if row not in rows]
    assert (new["table"], new["version"], new["changes"]) == (
        "found.orders",
        2,
        ["column note is new: string"],
    )
    assert os.environ["AWS_ENDPOINT_URL"] == aws
