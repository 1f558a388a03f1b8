"""The bundled changes in Delta: the tables are the databases' own end states, as in Iceberg."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
import yaml
from harness.oracle import DMS_TABLES, differences, differences_from_expected
from harness.project import DATA, ROOT, TemporaryProject

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.e2e, pytest.mark.delta]


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    sources, tables = (
        yaml.safe_load((ROOT / f"conf/base/{name}.yml").read_text(encoding="utf-8"))
        for name in ("sources", "tables")
    )
    project = TemporaryProject.make(
        tmp_path_factory.mktemp("delta") / "project",
        {"dms_sample": sources["dms_sample"]},
        {name: table for name, table in tables.items() if table["source"] == "dms_sample"},
        as_shipped=True,
        table_format="delta",
    )
    shutil.copytree(DATA / "01_raw/dms_sample", project.landing / "dms_sample")
    project.run()
    return project


@pytest.mark.parametrize("table", DMS_TABLES)
def test_current_and_open_versions_are_the_database_after_its_last_change(
    lake: TemporaryProject, table: str
) -> None:
    current, history = lake.arrow(f"dms_sample.{table}"), lake.arrow(f"dms_sample.{table}_history")
    assert differences_from_expected(table, current) == (0, 0)
    is_open = history.filter(history["is_current"])
    assert differences(current, is_open, [c for c in current.column_names if not c.startswith("_")]) == 0


def test_a_second_run_writes_nothing(lake: TemporaryProject) -> None:
    def files() -> dict[Path, int]:
        return {p: p.stat().st_mtime_ns for p in (lake.path / "lakehouse/warehouse").rglob("*")}

    before = files()
    assert lake.run() == []
    assert files() == before
