"""Hudi keeps what holds of every table format."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import pytest
from harness.project import TemporaryProject

from kedro_lakehouse.formats.base import FormatContext
from kedro_lakehouse.formats.hudi import HudiFormat
from kedro_lakehouse.project import Project
from kedro_lakehouse.testing import TableFormatContract

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.contract, pytest.mark.spark]


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> FormatContext:
    temporary = TemporaryProject.make(tmp_path_factory.mktemp("formats") / "project", {}, {}, env="hudi")
    project = Project.load(str(temporary.path / "conf"), None)
    return FormatContext(
        session=lambda: project.session, catalog=project.catalog, lakehouse=project.lakehouse,
        run_id="run1", correlation_id="run1", spark_conf=project.spark_conf,
    )  # fmt: skip


class TestHudi(TableFormatContract):
    hostile = ("select", "_a", "Mixed_Case9")  # the only kind of names that Avro has

    @pytest.fixture(scope="class")
    @classmethod
    def session(cls, context: FormatContext) -> SparkSession:
        return context.session()

    @pytest.fixture(scope="class")
    @classmethod
    def make_format(cls, context: FormatContext) -> Callable[[str], Any]:
        return lambda run_id: HudiFormat(dataclasses.replace(context, run_id=run_id))
