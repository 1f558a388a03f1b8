"""Which table format a table has, and what is refused before anything is started."""

from __future__ import annotations

import shutil
import textwrap
from pathlib import Path
from typing import Any

import pytest

from kedro_lakehouse.config.loading import Declarations
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.errors import ConfigurationError, UnknownPluginError, UnsupportedError
from kedro_lakehouse.formats.delta.format import DeltaFormat
from kedro_lakehouse.formats.iceberg.format import IcebergFormat
from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import Project

pytestmark = pytest.mark.unit

CONF = Path(__file__).resolve().parents[2] / "conf"
ORDERS = TableName("shop", "orders")


def project(conf: dict[str, str] | None = None, **keys: Any) -> Project:
    declared = TableConfig(source="shop", keys=("id",), **keys)
    return Project(
        env="test", declarations=Declarations(sources={}, tables={ORDERS: declared}, suites={}),
        spark_conf=conf or {}, lakehouse="",
    )  # fmt: skip


def conf_folder(folder: Path, table_format: str, table: str) -> str:
    (folder / "base").mkdir()
    (folder / "local").mkdir()
    (folder / "base/globals.yml").write_text(f"table_format: {table_format}\n")
    (folder / "base/sources.yml").write_text("shop: {type: changes, path: here}\n")
    (folder / "base/tables.yml").write_text(
        f"shop.orders: {{source: shop, keys: [id], order_by: [at], format: {table}}}\n"
    )
    return str(folder)


def test_a_table_has_the_environments_format_unless_it_names_one() -> None:
    assert isinstance(project().format_of(ORDERS), IcebergFormat)
    assert isinstance(project(format="iceberg").format_of(ORDERS), IcebergFormat)
    with pytest.raises(UnknownPluginError, match="paper"):
        project(format="paper").format_of(ORDERS)


def test_the_environment_of_delta_loads_both_formats() -> None:
    here, base = (Project.load(str(CONF), env) for env in ("delta", "base"))
    assert here.owner_of(ORDERS).format_name == "delta"
    assert (DeltaFormat.lacking(here.spark_conf), IcebergFormat.lacking(here.spark_conf)) == (None, None)
    assert "DeltaSparkSessionExtension" in str(DeltaFormat.lacking(base.spark_conf))
    packages = [p.spark_conf["spark.jars.packages"].split(",") for p in (here, base)]
    assert set(packages[1]) < set(packages[0])


def test_an_environment_that_does_not_load_the_format_is_told() -> None:
    hudi_only = {"spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension"}
    with pytest.raises(UnsupportedError, match=r"test does not load the table format iceberg"):
        project(hudi_only).format_of(ORDERS)


def test_a_format_that_is_not_loaded_is_refused_with_its_tables_and_what_to_write_where() -> None:
    base = Project.load(str(CONF), "base")
    with pytest.raises(UnsupportedError) as refused:
        project(base.spark_conf, format="delta").format_of(ORDERS)
    said = str(refused.value)
    for part in ("shop.orders", "conf/delta/spark.yml into conf/test/spark.yml", "`kedro run --env=delta`"):
        assert part in said
    assert len(textwrap.wrap(said, 80)) <= 6


def test_the_settings_of_delta_laid_over_those_of_base_load_both_formats(tmp_path: Path) -> None:
    shutil.copytree(CONF, tmp_path / "conf")
    shutil.copy(CONF / "delta/spark.yml", tmp_path / "conf/local/spark.yml")
    here = Project.load(str(tmp_path / "conf"), None)
    assert (DeltaFormat.lacking(here.spark_conf), IcebergFormat.lacking(here.spark_conf)) == (None, None)
    assert here.owner_of(ORDERS).format_name == "iceberg"
    assert here.spark_conf["spark.sql.catalog.lake.type"] == "jdbc"


@pytest.mark.parametrize(
    ("environments", "tables", "place"),
    [
        ("iceborg", "null", "globals.yml, line 1: 'table_format'"),
        ("iceberg", "iceborg", "tables.yml, line 1: 'shop.orders.format'"),
    ],
)
def test_an_unknown_format_is_refused_where_it_is_declared(
    tmp_path: Path, environments: str, tables: str, place: str
) -> None:
    with pytest.raises(ConfigurationError, match="iceberg") as refused:
        Project.load(conf_folder(tmp_path, environments, tables), None)
    assert place in str(refused.value)
