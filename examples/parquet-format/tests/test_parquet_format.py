"""The plug-in keeps the contract of table formats, and is found by its entry point."""

from __future__ import annotations

import dataclasses
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import lakehouse_parquet
import pytest
from lakehouse_parquet import ParquetFormat
from pyspark.sql import SparkSession

from kedro_lakehouse.formats.base import FormatContext
from kedro_lakehouse.plugins import TABLE_FORMATS, list_plugins, load_plugin
from kedro_lakehouse.session.catalog import MetadataCatalog
from kedro_lakehouse.testing import TableFormatContract, cut_off

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_it_is_found_by_its_name() -> None:
    assert "parquet" in list_plugins(TABLE_FORMATS)
    assert load_plugin(TABLE_FORMATS, "parquet") is ParquetFormat
    assert "parquet" in entry_points(group=TABLE_FORMATS).names


class TestParquetFormat(TableFormatContract):
    @pytest.fixture(scope="class")
    @classmethod
    def session(cls) -> SparkSession:
        settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "1"}
        return SparkSession.builder.master("local[1]").config(map=settings).getOrCreate()

    @pytest.fixture(scope="class")
    @classmethod
    def make_format(
        cls, session: SparkSession, tmp_path_factory: pytest.TempPathFactory
    ) -> Callable[[str], Any]:
        lakehouse: Path = tmp_path_factory.mktemp("parquet")
        context = FormatContext(
            session=lambda: session, catalog=MetadataCatalog({}), lakehouse=str(lakehouse),
            run_id="run1", correlation_id="run1",
        )  # fmt: skip
        return lambda run_id: ParquetFormat(dataclasses.replace(context, run_id=run_id))

    @pytest.fixture
    def lose(self) -> Callable[[Any], Any]:
        return lambda lost: cut_off(lakehouse_parquet, "_write", lost, OSError("no answer"))
