"""The default pipeline with ``--env=aws``: Iceberg in Glue's catalog and on S3, through the JVM."""

from __future__ import annotations

import json

import boto3
import pytest
from harness.aws import LAKEHOUSE, ProjectOnAws
from harness.oracle import DMS_TABLES, differences_from_expected
from harness.soak import soaking

from kedro_lakehouse.names import TableName

pytestmark = pytest.mark.aws

TABLES = DMS_TABLES if soaking() else ["player", "seat_type"]


@pytest.fixture(scope="module")
def ran(project: ProjectOnAws) -> ProjectOnAws:
    """Tables of the bundled DMS task, in a soak all of them, run once."""
    project.declare(TABLES)
    project.run()
    return project


@pytest.mark.parametrize("table", TABLES)
def test_each_table_is_the_database_after_its_last_change(ran: ProjectOnAws, table: str) -> None:
    found = ran.opened().catalog.find(TableName("dms_sample", table))
    assert found is not None
    assert differences_from_expected(table, found.scan().to_arrow()) == (0, 0)


def test_glue_knows_every_table_with_its_columns(ran: ProjectOnAws) -> None:
    glue = boto3.client("glue")
    pages = glue.get_paginator("get_tables").paginate(DatabaseName="dms_sample")
    found = {table["Name"]: table for page in pages for table in page["TableList"]}
    roles = ("", "_changes", "_history")  # no record is wrong, so there is no quarantine
    assert set(found) == {f"{table}{role}" for table in TABLES for role in roles}
    assert {table["Parameters"]["table_type"] for table in found.values()} == {"ICEBERG"}
    columns = {column["Name"] for column in found["player"]["StorageDescriptor"]["Columns"]}
    assert {"id", "display_name"} <= columns


def test_what_every_writer_stored_is_encrypted_by_kms(ran: ProjectOnAws) -> None:
    stored = ran.objects("lakehouse/warehouse/")
    one_of_each_kind = {(key.split("/")[-2], key.rpartition(".")[2]): key for key in stored}
    assert {kind for _, kind in one_of_each_kind} >= {"parquet", "avro", "json"}
    heads = [boto3.client("s3").head_object(Bucket=LAKEHOUSE, Key=key) for key in one_of_each_kind.values()]
    assert {head.get("ServerSideEncryption") for head in heads} == {"aws:kms"}


def test_commands_without_spark_see_the_tables_and_the_log(ran: ProjectOnAws) -> None:
    told = ran.kedro("lakehouse", "tables", "--env", "aws", "--json")
    assert told.returncode == 0, told.stderr
    rows = {row["table"]: row for row in json.loads(told.stdout)}
    assert set(rows) == {f"dms_sample.{table}" for table in TABLES}
    asked = ran.kedro(
        "lakehouse", "sql", "select count(*) as n from dms_sample.seat_type", "--env", "aws", "--json"
    )
    assert asked.returncode == 0, asked.stderr
    seats = json.loads(asked.stdout)[0]["n"]
    assert seats == len(ran.opened().catalog.find(TableName("dms_sample", "seat_type")).scan().to_arrow()) > 0
    log = ran.kedro("lakehouse", "logs", "--env", "aws", "--json")
    assert log.returncode == 0, log.stderr
    assert {line["origin"] for line in json.loads(log.stdout)} >= {"python"}


def test_no_folder_is_made_in_the_project(ran: ProjectOnAws) -> None:
    assert {entry.name for entry in ran.path.iterdir()} <= {"conf", "src", "pyproject.toml", ".cache", ".viz"}


def test_a_second_run_changes_nothing(ran: ProjectOnAws) -> None:
    """Runs last: its log is one more."""
    before = ran.objects("lakehouse/warehouse/")
    ran.run()
    assert ran.objects("lakehouse/warehouse/") == before
    assert ran.objects("lakehouse/leases/") == {}
