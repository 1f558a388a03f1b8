"""What a run keeps or finds in S3, against moto: landed files, logs, leases, credentials, the catalog."""

from __future__ import annotations

import json
import logging
import threading
from dataclasses import replace
from types import SimpleNamespace

import boto3
import pyarrow as pa
import pytest
from harness.aws import LAKEHOUSE, LANDING, moto_aws
from harness.project import ROOT
from pyspark.sql import types as T

from kedro_lakehouse.commits.glue import tell_glue
from kedro_lakehouse.errors import AwsRefusedError, ConfigurationError, SourceNotFoundError, UnsupportedError
from kedro_lakehouse.formats.base import Capabilities, TableState
from kedro_lakehouse.logs.kept import kept_logs, read_lines
from kedro_lakehouse.monitoring.run_log import RunLog
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.lease import lease
from kedro_lakehouse.ops.object_lease import object_lease
from kedro_lakehouse.ops.report import CommitReport
from kedro_lakehouse.ops.store import DECISIONS
from kedro_lakehouse.project import Project
from kedro_lakehouse.sources.files import list_files

pytestmark = [pytest.mark.contract, pytest.mark.aws]

ITEM = TableName("shop", "item")
KINDS = {"string": T.StringType, "date": T.DateType}
LEASES = f"s3://{LAKEHOUSE}/leases"


@pytest.fixture(scope="module", autouse=True)
def aws():
    with moto_aws() as address:
        yield address


@pytest.fixture
def project():
    return Project.load(str(ROOT / "conf"), "aws")


def put(key, body=b"x", bucket=LANDING):
    boto3.client("s3").put_object(Bucket=bucket, Key=key, Body=body)


def keys(prefix, bucket=LAKEHOUSE):
    found = boto3.client("s3").list_objects_v2(Bucket=bucket, Prefix=prefix)
    return sorted(entry["Key"] for entry in found.get("Contents", ()))


def test_landed_files_are_listed_with_their_addresses_also_those_that_land_later():
    for name in ("LOAD00000001.csv", "_hidden/a.csv", "b.csv.tmp"):
        put(f"landing/shop/item/{name}")
    root = f"s3://{LANDING}/landing/shop/item"
    assert [f.path for f in list_files(root, ["*.csv"], table=ITEM)] == [f"{root}/LOAD00000001.csv"]
    put("landing/shop/item/20261121.csv", b"xyz")
    later, first = list_files(root, ["*.csv"], table=ITEM)
    assert (later.name, later.size, first.size) == ("20261121.csv", 3, 1)
    assert later.modified >= first.modified > 1_600_000_000_000


def test_a_folder_that_is_not_there_is_told():
    with pytest.raises(SourceNotFoundError, match="nothing at s3://"):
        list_files(f"s3://{LANDING}/landing/nowhere", ["*"], table=ITEM)


def test_a_runs_log_is_in_s3_when_it_ends_and_is_read_from_there():
    run = SimpleNamespace(
        logs=f"s3://{LAKEHOUSE}/lakehouse/logs", log_folder=None, run_id="20260101T000000_a", env="aws",
        lakehouse=f"s3://{LAKEHOUSE}/lakehouse",
        run=None, unlabel=lambda: None,
    )  # fmt: skip
    with RunLog(run, {}):
        logging.getLogger("kedro_lakehouse.test").warning("told")
        folder = run.log_folder
        (folder / "20260101T000000_a.jvm.jsonl").write_text(
            json.dumps({"time": "2026-01-01T00:00:00.000Z", "message": "by the JVM", "batch": ""})
        )
    assert not folder.exists()
    (log,) = kept_logs(run.logs)
    assert log.run_id == run.run_id
    assert {"told", "by the JVM"} <= {line["message"] for line in read_lines([log])}


def test_a_lease_is_waited_for_and_gone_when_it_is_released():
    begun, got = threading.Event(), threading.Event()

    def wait() -> None:
        begun.set()
        with lease(LEASES, ITEM, "current"):
            got.set()

    waiting = threading.Thread(target=wait)
    with lease(LEASES, ITEM, "current"), lease(LEASES, ITEM, "history"):
        waiting.start()
        assert begun.wait(5)
        assert not got.wait(0.5)
        assert keys("leases/") == ["leases/shop.item.current.lease", "leases/shop.item.history.lease"]
    assert got.wait(20)
    waiting.join()
    assert keys("leases/") == []


def test_a_dead_runs_lease_is_taken_over_and_a_live_ones_is_not(caplog):
    put("leases/shop.item.ingestion.lease", b"of a run that is dead", LAKEHOUSE)
    with object_lease(LEASES, ITEM, "ingestion", beat=0.05, dead_after=0.5):
        assert "is gone" in caplog.text
        taken = threading.Event()

        def wait() -> None:
            with object_lease(LEASES, ITEM, "ingestion", dead_after=0.5):
                taken.set()

        waiting = threading.Thread(target=wait)
        waiting.start()
        assert not taken.wait(1.5)  # thrice the time after which a lease without a beat is taken over
    waiting.join()
    assert taken.is_set()


def test_a_lease_that_was_taken_over_is_left_to_its_new_holder(caplog):
    with object_lease(LEASES, ITEM, "current", beat=0.01):
        put("leases/shop.item.current.lease", b"of another run", LAKEHOUSE)
    assert keys("leases/shop.item.current") == ["leases/shop.item.current.lease"]
    boto3.client("s3").delete_object(Bucket=LAKEHOUSE, Key="leases/shop.item.current.lease")


def test_a_lease_needs_its_bucket_and_a_kind_of_storage_that_has_leases():
    with pytest.raises(AwsRefusedError, match="NoSuchBucket"), lease("s3://nowhere/leases", ITEM, "current"):
        pass
    with pytest.raises(UnsupportedError, match="no leases"):
        lease("gs://bucket/leases", ITEM, "current")


def test_credentials_are_secrets_that_are_fetched_at_first_use_and_kept_nowhere(project):
    secrets = boto3.client("secretsmanager")
    made = secrets.create_secret(Name="kedro-lakehouse/chat", SecretString='{"token": "CANARY-1"}')
    assert project.credentials("chat") == {"token": "CANARY-1"}
    secrets.put_secret_value(SecretId=made["ARN"], SecretString='{"token": "CANARY-2"}')
    assert project.credentials("chat") == {"token": "CANARY-2"}
    assert "CANARY" not in f"{project!r} {vars(project)}"


def test_a_secret_that_is_missing_or_no_object_is_told_without_its_text(project):
    with pytest.raises(AwsRefusedError, match=r"kedro-lakehouse/none.*ResourceNotFoundException"):
        project.credentials("none")
    boto3.client("secretsmanager").create_secret(Name="kedro-lakehouse/bare", SecretString="CANARY")
    with pytest.raises(ConfigurationError, match="not a JSON object") as told:
        project.credentials("bare")
    assert told.value.__context__ is None
    assert "CANARY" not in str(told.value)


def test_pyiceberg_opens_the_catalog_that_spark_is_told_of_and_encrypts(project):
    project.ops.append(DECISIONS, [{"decision": "d1", "table": "shop.item"}])
    project.ops.append(DECISIONS, [{"decision": "d2", "table": "shop.item"}])
    assert {row["decision"] for row in project.ops.read(DECISIONS)} == {"d1", "d2"}
    assert boto3.client("glue").get_table(DatabaseName="ops", Name="decisions")
    stored = keys("lakehouse/warehouse/")
    assert stored
    heads = [boto3.client("s3").head_object(Bucket=LAKEHOUSE, Key=key) for key in stored]
    assert {head.get("ServerSideEncryption") for head in heads} == {"aws:kms"}
    project.catalog.purge(TableName.ops("decisions"))
    assert project.ops.arrow(DECISIONS) is None


def test_an_arrow_table_written_to_glue_is_counted_by_its_metadata(project):
    project.catalog.ensure_namespace("shop")
    project.catalog.ensure_namespace("shop")
    rows = pa.table({"id": [1, 2, 3]})
    project.catalog.catalog.create_table(ITEM.identifier, schema=rows.schema).append(rows)
    assert project.catalog.rows(ITEM) == 3
    assert [t[-1] for t in project.catalog.tables("shop")] == ["item"]
    assert not project.catalog.keeps_views
    assert not project.catalog.view_exists(TableName("shop", "dim_item"))


class TablesAtAPath:
    """What a format without a catalog of its own tells of its tables."""

    name = "delta"
    capabilities = Capabilities(glue_provider="delta")

    def __init__(self, **columns):
        self.columns = columns

    def state(self, table):
        kinds = {name: KINDS[kind]() for name, kind in self.columns.items()}
        return None if table.table.endswith("_quarantine") else TableState(
            columns=kinds, bookmark=None, snapshot_id=1, rows=1
        )  # fmt: skip


def test_a_commit_of_a_table_at_a_path_is_told_to_glue_with_its_evolved_columns(project, monkeypatch):
    league, glue = TableName("dms_sample", "sport_league"), boto3.client("glue")
    report = CommitReport(
        table=str(league), stage="current", batch=1, batches=1, content_hash="x", run_id="r",
        committed_at="2026-01-01T00:00:00.000+00:00",
    )  # fmt: skip
    for columns in ({"short_name": "string"}, {"short_name": "string", "founded": "date"}):
        found = TablesAtAPath(**columns)
        monkeypatch.setattr(project, "format", lambda name, found=found: found)
        tell_glue(project.bind(league), report)
        tell_glue(project.bind(league), replace(report, stage="ingestion"))
        told = glue.get_table(DatabaseName="dms_sample", Name="sport_league")["Table"]
        assert {c["Name"]: c["Type"] for c in told["StorageDescriptor"]["Columns"]} == columns
    assert told["StorageDescriptor"]["Location"] == (
        f"s3://{LAKEHOUSE}/lakehouse/warehouse/dms_sample/sport_league"
    )
    names = {t["Name"] for t in glue.get_tables(DatabaseName="dms_sample")["TableList"]}
    assert names == {"sport_league", "sport_league_changes"}
