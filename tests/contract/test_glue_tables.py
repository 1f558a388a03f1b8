"""Delta and Hudi tables as Glue's catalog tells of them, on moto."""

import boto3
import pytest
from moto import mock_aws
from moto.core import set_initial_no_auth_action_count

from kedro_lakehouse.errors import AwsRefusedError, PlaceUnusableError, UnsupportedError
from kedro_lakehouse.formats.glue import GlueTable, hive_type, register_table
from kedro_lakehouse.names import TableName
from kedro_lakehouse.session.catalog import MetadataCatalog

pytestmark = [pytest.mark.contract, pytest.mark.aws]

ITEM = TableName("shop", "item")
PLACE = "s3://lake/warehouse/shop/item"
COLUMNS = {"id": "bigint", "price": "decimal(10,2)", "seen": "timestamp_ntz"}


@pytest.fixture(autouse=True)
def aws(monkeypatch):
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
    with mock_aws():
        yield


def table(provider="delta", columns=COLUMNS, **more):
    return GlueTable(name=ITEM, provider=provider, columns=columns, location=PLACE, **more)


def stored():
    return boto3.client("glue", "eu-west-1").get_table(DatabaseName="shop", Name="item")["Table"]


def columns_of(found, part="Columns"):
    held = found["StorageDescriptor"] if part == "Columns" else found
    return {column["Name"]: column["Type"] for column in held[part]}


def versions():
    glue = boto3.client("glue", "eu-west-1")
    return len(glue.get_table_versions(DatabaseName="shop", TableName="item")["TableVersions"])


def test_a_delta_table_is_told_with_columns_place_and_kind():
    assert register_table(table())
    found = stored()
    assert columns_of(found) == {"id": "bigint", "price": "decimal(10,2)", "seen": "timestamp"}
    assert found["StorageDescriptor"]["Location"] == PLACE
    assert found["Parameters"]["table_type"] == "DELTA"
    assert found["Parameters"]["spark.sql.sources.provider"] == "delta"


def test_a_table_of_hive_under_a_declared_name_is_named_with_the_remedy():
    glue = boto3.client("glue", "eu-west-1")
    glue.create_database(DatabaseInput={"Name": "shop"})
    hive = {"Name": "item", "Parameters": {"classification": "parquet"}}
    glue.create_table(DatabaseName="shop", TableInput=hive | {"StorageDescriptor": {"Location": PLACE}})
    catalog = MetadataCatalog(
        {
            "spark.sql.catalog.lake.type": "glue",
            "spark.sql.catalog.lake.warehouse": "s3://lake/warehouse",
            "spark.sql.catalog.lake.client.region": "eu-west-1",
        }
    )
    with pytest.raises(PlaceUnusableError, match=r"table shop\.item: .* no Iceberg table") as refused:
        catalog.find(ITEM)
    assert "another name in tables.yml" in str(refused.value)


def test_the_same_table_gets_no_new_version():
    assert register_table(table(parameters={"kedro_lakehouse.batch": "1"}))
    before = versions()
    assert not register_table(table(parameters={"kedro_lakehouse.batch": "1"}))
    assert versions() == before
    assert register_table(table(parameters={"kedro_lakehouse.batch": "2"}))
    assert versions() == before + 1


def test_an_evolved_schema_is_taken_over_in_its_order():
    register_table(table())
    evolved = {"id": "bigint", "colour": "string", "price": "decimal(12,2)", "seen": "timestamp_ntz"}
    assert register_table(table(columns=evolved))
    found = columns_of(stored())
    assert list(found) == list(evolved)
    assert found["price"] == "decimal(12,2)"


@pytest.mark.parametrize(
    ("provider", "reads"),
    [("hudi", "HoodieParquetInputFormat"), ("hudi_mor", "HoodieParquetRealtimeInputFormat")],
)
def test_a_hudi_tables_partitions_are_told_apart(provider, reads):
    register_table(table(provider, COLUMNS | {"day": "date"}, partition_by=["day"]))
    found = stored()
    assert "day" not in columns_of(found)
    assert columns_of(found, "PartitionKeys") == {"day": "date"}
    assert found["StorageDescriptor"]["InputFormat"].rpartition(".")[2] == reads
    assert found["Parameters"]["table_type"] == "HUDI"


def test_a_delta_tables_partitions_are_columns_like_others():
    register_table(table("delta", COLUMNS | {"day": "date"}, partition_by=["day"]))
    assert columns_of(stored())["day"] == "date"
    assert not stored().get("PartitionKeys")


def test_an_iceberg_table_is_never_written_over():
    glue = boto3.client("glue", "eu-west-1")
    glue.create_database(DatabaseInput={"Name": "shop"})
    theirs = {"Name": "item", "Parameters": {"table_type": "ICEBERG", "metadata_location": "s3://x"}}
    glue.create_table(DatabaseName="shop", TableInput=theirs)
    with pytest.raises(UnsupportedError, match="Iceberg"):
        register_table(table())
    assert stored()["Parameters"] == theirs["Parameters"]


@set_initial_no_auth_action_count(0)
def test_a_refusal_of_glue_is_told_by_its_code():
    with pytest.raises(AwsRefusedError, match=r"shop\.item.*403"):
        register_table(table())


def test_names_of_fields_are_no_types():
    assert hive_type("struct<void:int,at:timestamp_ntz,m:map<string,timestamp_ltz>>") == (
        "struct<void:int,at:timestamp,m:map<string,timestamp>>"
    )
