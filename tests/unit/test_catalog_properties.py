"""One place says where the lake is: Spark's settings of its catalog, translated for pyiceberg."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import yaml
from harness import pages
from harness.project import ROOT

from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.project import Project
from kedro_lakehouse.session.catalog import MetadataCatalog, catalog_properties

pytestmark = pytest.mark.unit

KEY = "arn:aws:kms:eu-west-1:123456789012:key/k"


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION", "LAKEHOUSE_KMS_KEY", "LAKEHOUSE_PATH_STYLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.setenv("LAKEHOUSE_BUCKET", "lake")


def on_aws():
    return Project.load(str(ROOT / "conf"), "aws").spark_conf


def of(**settings):
    return catalog_properties({f"spark.sql.catalog.lake.{k}": v for k, v in settings.items()})


def test_the_embedded_catalog_is_the_same_file():
    found = of(type="jdbc", uri="jdbc:sqlite:file:/lake/catalog.db?journal_mode=WAL", warehouse="/lake/w")
    assert found == {"type": "sql", "uri": "sqlite:////lake/catalog.db", "warehouse": "file:///lake/w"}


def test_on_aws_it_is_glue_with_encryption_and_without_an_endpoint_of_its_own(monkeypatch):
    monkeypatch.setenv("LAKEHOUSE_KMS_KEY", KEY)
    spark = on_aws()
    assert catalog_properties(spark) == {
        "type": "glue", "warehouse": "s3://lake/lakehouse/warehouse", "client.region": "eu-west-1",
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
        "s3.server-side-encryption": "aws:kms", "s3.sse-kms-key-id": KEY,
    }  # fmt: skip
    assert not [name for name in spark if "endpoint" in name and "region" not in name]
    assert {k: v for k, v in spark.items() if ".sse." in k or "encryption" in k} == {
        "spark.sql.catalog.lake.s3.sse.type": "kms", "spark.sql.catalog.lake.s3.sse.key": KEY,
        "spark.hadoop.fs.s3a.encryption.algorithm": "SSE-KMS", "spark.hadoop.fs.s3a.encryption.key": KEY,
    }  # fmt: skip


def test_a_stand_in_of_aws_is_found_by_all_clients(monkeypatch):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:5000")
    spark = on_aws()
    found = catalog_properties(spark)
    assert {found["s3.endpoint"], found["glue.endpoint"], spark["spark.hadoop.fs.s3a.endpoint"]} == {
        "http://127.0.0.1:5000"
    }


def test_on_aws_nothing_of_the_embedded_catalog_is_left_and_the_jars_are_its_own():
    spark = on_aws()
    assert not [k for k, v in spark.items() if "jdbc" in k or "sqlite" in v]
    assert "spark.master" not in spark
    assert "hadoop-aws" in spark["spark.jars.packages"]
    base = Project.load(str(ROOT / "conf"), None).spark_conf
    assert "aws" not in base["spark.jars.packages"]


def test_s3_tables_by_iceberg_rest_as_the_page_shows_it():
    (shown,) = [
        block.text for block in pages.blocks(ROOT / "docs/how-to/run-on-aws.md")
        if block.language == "yaml" and "s3tables" in block.text
    ]  # fmt: skip
    changes = yaml.safe_load(shown.replace("${globals:region}", "eu-west-1"))
    spark = {k: v for k, v in (on_aws() | changes).items() if v is not None}
    assert catalog_properties(spark) == {
        "type": "rest", "uri": "https://s3tables.eu-west-1.amazonaws.com/iceberg",
        "warehouse": "arn:aws:s3tables:eu-west-1:123456789012:bucket/my-tables",
        "client.region": "eu-west-1", "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
        "rest.sigv4-enabled": "true", "rest.signing-name": "s3tables", "rest.signing-region": "eu-west-1",
    }  # fmt: skip
    assert {v for k, v in spark.items() if k.startswith("spark.sql.catalog.lake") and "glue" in v} == set()


def test_another_kind_of_catalog_is_refused_with_those_that_are_known():
    with pytest.raises(UnsupportedError, match=r"'hive'.*jdbc.*glue or rest"):
        of(type="hive", uri="thrift://x")


def test_runs_that_make_a_catalog_at_once_all_open_it(tmp_path):
    conf = {
        "spark.sql.catalog.lake.type": "jdbc",
        "spark.sql.catalog.lake.uri": f"jdbc:sqlite:file:{tmp_path}/catalog.db",
        "spark.sql.catalog.lake.warehouse": str(tmp_path),
    }
    together = threading.Barrier(4)

    def namespaces(_):
        catalog = MetadataCatalog(conf)
        together.wait()
        return catalog.namespaces()

    with ThreadPoolExecutor(4) as runs:
        assert list(runs.map(namespaces, range(4))) == [[]] * 4
