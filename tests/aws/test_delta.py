"""The default pipeline with ``--env=aws`` on Delta: S3A, and Glue's catalog told of evolved columns."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import boto3
import pyarrow.parquet as pq
import pytest
import yaml
from harness.oracle import DMS_TABLES, differences_from_expected

if TYPE_CHECKING:
    from pathlib import Path

    from harness.aws import ProjectOnAws


pytestmark = pytest.mark.aws

TABLES = ("seat_type", "sport_league", "sport_team")
READ = """
import sys
import pyarrow.parquet as pq
from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import Project
project = Project.load("conf", "aws")
for table in sys.argv[2:]:
    name = TableName("dms_sample", table)
    pq.write_table(project.format_of(name).read(name).toArrow(), f"{sys.argv[1]}/{table}.parquet")
"""


@pytest.fixture(scope="module")
def ran(project: ProjectOnAws) -> ProjectOnAws:
    """Three tables of the bundled DMS task as Delta, run once."""
    others = {f"dms_sample.{table}": None for table in DMS_TABLES if table not in TABLES}
    conf = project.path / "conf/aws"
    (conf / "tables.yml").write_text(yaml.safe_dump({"sp500.constituents": None, **others}))
    (conf / "expectations.yml").write_text(yaml.safe_dump({"dms_sample": None}))
    with (conf / "globals.yml").open("a") as globals_:
        globals_.write("table_format: delta\n")
    done = project.kedro("run", "--env=aws")
    assert done.returncode == 0, done.stderr[-5000:]
    return project


def test_each_table_is_the_database_after_its_last_change(ran: ProjectOnAws, tmp_path: Path) -> None:
    read = subprocess.run(
        [sys.executable, "-c", READ, str(tmp_path), *TABLES],
        cwd=ran.path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert read.returncode == 0, read.stderr[-5000:]
    found = {table: pq.read_table(tmp_path / f"{table}.parquet") for table in TABLES}
    assert {t: differences_from_expected(t, rows) for t, rows in found.items()} == dict.fromkeys(
        TABLES, (0, 0)
    )


def test_glue_is_told_of_each_table_and_of_its_columns(ran: ProjectOnAws) -> None:
    told = {t["Name"]: t for t in boto3.client("glue").get_tables(DatabaseName="dms_sample")["TableList"]}
    assert set(told) == {f"{table}{role}" for table in TABLES for role in ("", "_changes", "_history")}
    assert {t["Parameters"]["table_type"] for t in told.values()} == {"DELTA"}
    columns = {c["Name"] for c in told["sport_league"]["StorageDescriptor"]["Columns"]}
    assert "short_name" in columns


def test_a_second_run_changes_nothing(ran: ProjectOnAws) -> None:
    before = ran.objects("lakehouse/warehouse/")
    again = ran.kedro("run", "--env=aws")
    assert again.returncode == 0, again.stderr[-5000:]
    assert ran.objects("lakehouse/warehouse/") == before
