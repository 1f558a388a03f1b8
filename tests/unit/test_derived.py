"""Derived tables without a JVM: which commits they read, and after what they run."""

from __future__ import annotations

import datetime as dt
import logging
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from harness.catalogs import embedded_catalog

from kedro_lakehouse.config.tables import DeriveConfig
from kedro_lakehouse.formats.base import FormatContext
from kedro_lakehouse.formats.iceberg.format import IcebergFormat
from kedro_lakehouse.ingestion.derived import DerivedSource
from kedro_lakehouse.lake_table import LakeTable
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.report import HELD
from kedro_lakehouse.pipeline_registry import register_tables
from kedro_lakehouse.project import Project
from kedro_lakehouse.sources.files import LandedFile

if TYPE_CHECKING:
    from kedro_lakehouse.session.catalog import MetadataCatalog

pytestmark = pytest.mark.unit

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/dimension"
ROWS = pa.table({"id": pa.array([1], pa.int64())})


@pytest.fixture
def catalog(tmp_path: Path) -> MetadataCatalog:
    return embedded_catalog(tmp_path, "crm")


def source_over(catalog: MetadataCatalog) -> DerivedSource:
    context = FormatContext(session=pytest.fail, catalog=catalog, lakehouse="", run_id="", correlation_id="")
    lake = IcebergFormat(context)
    environment: Any = SimpleNamespace(format=lambda _: lake, default_format="iceberg")

    def bind(name: TableName) -> LakeTable:
        return LakeTable(name=name, environment=environment, bind=bind)

    derive = DeriveConfig(inputs={"m": "crm.master", "a": "crm.address"}, sql="select 1")
    return DerivedSource(bind(TableName("crm", "both")), derive)


def test_a_table_waits_until_every_input_holds_something(
    catalog: MetadataCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    catalog.catalog.create_table("crm.master", schema=ROWS.schema).append(ROWS)
    with caplog.at_level(logging.INFO, "kedro_lakehouse"):
        assert source_over(catalog).files() == []
    assert "crm.address" in caplog.text
    catalog.catalog.create_table("crm.address", schema=ROWS.schema)
    assert source_over(catalog).files() == []


def test_the_newest_set_of_commits_is_one_file_with_the_latest_time(catalog: MetadataCatalog) -> None:
    master, address = (
        catalog.catalog.create_table(f"crm.{t}", schema=ROWS.schema) for t in ("master", "address")
    )
    address.append(ROWS)
    master.append(ROWS)
    source = source_over(catalog)
    heads = [table.current_snapshot() for table in (master, address)]
    (first,) = source.files()
    assert first.path == first.name == f"derived:m@{heads[0].snapshot_id},a@{heads[1].snapshot_id}"
    assert first.modified == heads[0].timestamp_ms
    time, name = source.order_of(first)
    assert (time, name) == (dt.datetime.fromtimestamp(heads[0].timestamp_ms / 1000, dt.UTC), first.name)
    assert source.files() == [first]
    address.append(ROWS)
    (second,) = source.files()
    assert second != first
    assert source.order_of(second) >= source.order_of(first)


def test_a_table_waits_while_an_input_is_held(
    catalog: MetadataCatalog, caplog: pytest.LogCaptureFixture
) -> None:
    master, address = (
        catalog.catalog.create_table(f"crm.{t}", schema=ROWS.schema) for t in ("master", "address")
    )
    address.append(ROWS)
    master.append(ROWS)
    (first,) = source_over(catalog).files()
    with master.transaction() as change:
        change.set_properties({HELD: "2026-01-01"})
    assert source_over(catalog).files() == []
    assert "crm.both waits: its input crm.master is held since its rollback" in caplog.text
    with master.transaction() as change:
        change.remove_properties(HELD)
    assert source_over(catalog).files() == [first]


def test_a_set_is_gone_when_one_of_its_commits_is(catalog: MetadataCatalog) -> None:
    for table in ("master", "address"):
        catalog.catalog.create_table(f"crm.{table}", schema=ROWS.schema).append(ROWS)
    source = source_over(catalog)
    (there,) = source.files()
    assert source.still_there(there)
    assert not source.still_there(LandedFile("derived:m@1,a@2", 0, 0))
    # Other inputs than those that are declared now.
    assert not source.still_there(LandedFile(there.path.partition(",")[0], 0, 0))


def test_inputs_are_merged_before_a_derived_table_is_made() -> None:
    project = Project.load(str(EXAMPLE / "conf"), None)
    pipelines = register_tables(project)
    groups = [{node.name for node in group} for group in pipelines["__default__"].grouped_nodes]
    place = {name: i for i, group in enumerate(groups) for name in group}
    ingest = place["crm.customer.ingest"]
    assert max(place["crm.customer_master.merge"], place["crm.customer_address.merge"]) < ingest
    assert ingest < min(place["crm.customer.merge"], place["crm.customer.keep_history"])
    signals = {"crm.customer_master.published", "crm.customer_address.published"}
    assert signals <= pipelines["ingestion"].inputs()


def test_the_example_declares_the_published_start_and_names() -> None:
    table = Project.load(str(EXAMPLE / "conf"), None).table(TableName("crm", "customer"))
    assert table.initial_valid_from == dt.date(2022, 7, 1)
    assert table.history is not None
    assert table.history.view is not None
    assert table.history.view.open_end == dt.date(9999, 12, 31)
