"""The default pipeline with ``--env=aws_hudi``: Hudi by S3A, and Glue's catalog told of it."""

from __future__ import annotations

import datetime as dt
import io
from typing import TYPE_CHECKING

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from harness.aws import LAKEHOUSE, LANDING, ProjectOnAws, landed_on_aws
from harness.oracle import DMS_TABLES, tables_differing
from harness.project import ROOT
from harness.soak import only_in_soak
from omegaconf import OmegaConf

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.e2e, only_in_soak]

MERGE_ON_READ = "sport_team"
READER = "org.apache.hudi.hadoop.HoodieParquetInputFormat"
MERGING_READER = "org.apache.hudi.hadoop.realtime.HoodieParquetRealtimeInputFormat"


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProjectOnAws]:
    """The tables of the bundled DMS task, run once; one is merge-on-read."""
    with landed_on_aws():
        project = ProjectOnAws.make(tmp_path_factory.mktemp("aws") / "project", "aws_hudi")
        project.declare(DMS_TABLES)
        with (project.path / "conf/aws_hudi/tables.yml").open("a") as tables:
            kind = "hoodie.datasource.write.table.type: MERGE_ON_READ"
            tables.write(f"dms_sample.{MERGE_ON_READ}: {{properties: {{{kind}}}}}\n")
        project.run()
        yield project


def test_each_table_is_the_database_after_its_last_change(ran: ProjectOnAws, tmp_path: Path) -> None:
    assert tables_differing(ran.read(DMS_TABLES, tmp_path)) == {}


def test_glue_is_told_of_each_table_its_columns_and_partitions(ran: ProjectOnAws) -> None:
    pages = boto3.client("glue").get_paginator("get_tables").paginate(DatabaseName="dms_sample")
    told = {table["Name"]: table for page in pages for table in page["TableList"]}
    assert set(told) == {f"{table}{role}" for table in DMS_TABLES for role in ("", "_changes", "_history")}
    assert {table["Parameters"]["table_type"] for table in told.values()} == {"HUDI"}
    readers = {table: told[table]["StorageDescriptor"]["InputFormat"] for table in DMS_TABLES}
    assert readers == dict.fromkeys(DMS_TABLES, READER) | {MERGE_ON_READ: MERGING_READER}
    columns = {column["Name"] for column in told["sport_league"]["StorageDescriptor"]["Columns"]}
    assert "short_name" in columns
    assert [column["Name"] for column in told["sport_league_changes"]["PartitionKeys"]] == ["_op"]


def test_what_is_stored_is_encrypted_as_the_environment_says(ran: ProjectOnAws) -> None:
    """By KMS unless told otherwise; S3A of this line sends no key to what speaks HTTP, as moto does."""
    settings = OmegaConf.to_container(OmegaConf.load(ROOT / "conf/aws_hudi/globals.yml"))
    assert settings["s3a_encryption"].endswith(",SSE-KMS}")
    stored = ran.objects("lakehouse/warehouse/dms_sample/sport_league/")
    files = [key for key in stored if key.endswith(".parquet")]
    assert files
    heads = [boto3.client("s3").head_object(Bucket=LAKEHOUSE, Key=key) for key in files]
    assert {head.get("ServerSideEncryption") for head in heads} == {"AES256"}


def test_a_second_run_changes_nothing(ran: ProjectOnAws) -> None:
    before = ran.objects("lakehouse/warehouse/")
    ran.run()
    assert ran.objects("lakehouse/warehouse/") == before


def test_new_columns_of_one_table_are_told_to_glue_and_no_other_table_is_touched(ran: ProjectOnAws) -> None:
    before = ran.objects("lakehouse/warehouse/dms_sample/")
    row = {
        "Op": "I", "sport_type_name": "cricket", "founded": 1787, "short_name": "MCC",
        "full_name": "Marylebone Cricket Club", "change_seq": "20261122000000000000000000000000001",
        "last_update_time": dt.datetime(2026, 11, 22),  # noqa: DTZ001 - zone-less, as DMS writes it
    }  # fmt: skip
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist([row]), file, coerce_timestamps="us")
    place = "landing/dms_sample/sport_league/20261122-000000000.parquet"
    boto3.client("s3").put_object(Bucket=LANDING, Key=place, Body=file.getvalue())
    done = ran.kedro("run", "--env=aws_hudi", "--namespaces=dms_sample.sport_league")
    assert done.returncode == 0, done.stderr[-5000:]
    told = boto3.client("glue").get_table(DatabaseName="dms_sample", Name="sport_league")["Table"]
    columns = {column["Name"]: column["Type"] for column in told["StorageDescriptor"]["Columns"]}
    names = ("long_name", "full_name", "founded")
    assert {name: columns[name] for name in names} == dict.fromkeys(names, "string") | {"founded": "bigint"}
    touched = {
        key.split("/")[3]
        for key, tag in ran.objects("lakehouse/warehouse/dms_sample/").items()
        if before.get(key) != tag
    }
    assert touched <= {f"sport_league{role}" for role in ("", "_changes", "_history", "_quarantine")}
