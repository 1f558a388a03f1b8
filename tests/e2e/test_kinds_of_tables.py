"""The bundled data in Delta and in other kinds of Iceberg: each is its own origin's end state."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from harness.oracle import DMS_TABLES, differences, differences_from_expected, extracts_differing
from harness.planned import as_planned
from harness.project import DATA, ROOT, TemporaryProject
from harness.soak import only_in_soak

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

pytestmark = [pytest.mark.e2e, pytest.mark.delta, only_in_soak]

COPY: Final = "copy-on-write"
KINDS: Final[Mapping[str, dict[str, Any]]] = {
    "delta": {"format": "delta"},
    "copy_on_write": {
        "properties": {f"write.{verb}.mode": COPY for verb in ("delete", "update", "merge")},
    },
    "version_3": {"properties": {"format-version": "3"}},
}  # fmt: skip


@pytest.fixture(scope="module", params=list(KINDS))
def lake(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    sources, tables = (
        yaml.safe_load((ROOT / f"conf/base/{name}.yml").read_text(encoding="utf-8"))
        for name in ("sources", "tables")
    )
    project = TemporaryProject.make(
        tmp_path_factory.mktemp(request.param) / "project",
        sources,
        {name: table | KINDS[request.param] for name, table in tables.items()},
        as_shipped=True,
    )
    shutil.copytree(DATA / "01_raw", project.landing, dirs_exist_ok=True)
    with as_planned(project):
        project.run("ingestion", "cdc_merge", "scd2")
    return project


@pytest.mark.parametrize("table", DMS_TABLES)
def test_current_and_open_versions_are_the_database_after_its_last_change(
    lake: TemporaryProject, table: str
) -> None:
    current, history = lake.arrow(f"dms_sample.{table}"), lake.arrow(f"dms_sample.{table}_history")
    assert differences_from_expected(table, current) == (0, 0)
    is_open = history.filter(history["is_current"])
    assert differences(current, is_open, [c for c in current.column_names if not c.startswith("_")]) == 0


def test_as_of_each_extract_the_history_is_that_extract(lake: TemporaryProject) -> None:
    assert extracts_differing(lake.arrow("sp500.constituents_history")) == ([], 189, 21)


def test_a_second_run_writes_nothing(lake: TemporaryProject) -> None:
    def files() -> dict[Path, int]:
        return {p: p.stat().st_mtime_ns for p in (lake.path / "lakehouse/warehouse").rglob("*")}

    before = files()
    assert lake.run("ingestion", "cdc_merge", "scd2") == []
    assert files() == before
