"""The default pipeline with ``--env=aws`` on Delta: S3A, and Glue's catalog told of evolved columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import boto3
import pytest
from harness.oracle import DMS_TABLES, tables_differing
from harness.soak import only_in_soak

if TYPE_CHECKING:
    from pathlib import Path

    from harness.aws import ProjectOnAws

pytestmark = [pytest.mark.aws, only_in_soak]


@pytest.fixture(scope="module")
def ran(project: ProjectOnAws) -> ProjectOnAws:
    """The tables of the bundled DMS task as Delta, run once."""
    project.declare(DMS_TABLES)
    with (project.path / "conf/aws/globals.yml").open("a") as globals_:
        globals_.write("table_format: delta\n")
    project.run()
    return project


def test_each_table_is_the_database_after_its_last_change(ran: ProjectOnAws, tmp_path: Path) -> None:
    assert tables_differing(ran.read(DMS_TABLES, tmp_path)) == {}


def test_glue_is_told_of_each_table_and_of_its_columns(ran: ProjectOnAws) -> None:
    in_glue = {t["Name"]: t for t in boto3.client("glue").get_tables(DatabaseName="dms_sample")["TableList"]}
    stored = {f"{table}{role}" for table in DMS_TABLES for role in ("", "_changes", "_history")}
    assert set(in_glue) == stored
    assert {t["Parameters"]["table_type"] for t in in_glue.values()} == {"DELTA"}
    columns = {c["Name"] for c in in_glue["sport_league"]["StorageDescriptor"]["Columns"]}
    assert "short_name" in columns


def test_a_second_run_changes_nothing(ran: ProjectOnAws) -> None:
    before = ran.objects("lakehouse/warehouse/")
    ran.run()
    assert ran.objects("lakehouse/warehouse/") == before
