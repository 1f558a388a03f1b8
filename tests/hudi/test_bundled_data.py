"""The bundled data on Hudi, against its own origin: tables of both types, and the extracts."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from harness.oracle import DMS_TABLES, differences, differences_from_expected, extracts_differing
from harness.project import DATA, ROOT, TemporaryProject
from harness.soak import only_in_soak

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.e2e, only_in_soak]

MERGE_ON_READ = {"hoodie.datasource.write.table.type": "MERGE_ON_READ"}
KINDS = ("cow", "mor")
TABLES = [f"{kind}.{table}" for table in DMS_TABLES for kind in KINDS]


def _read(path: Path) -> dict[str, Any]:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    """Every table, and the extracts, as both types of table: run once."""
    sources, tables = _read(ROOT / "conf/base/sources.yml"), _read(ROOT / "conf/base/tables.yml")
    declared: dict[str, Any] = {}
    for name in TABLES:
        kind, _, table = name.partition(".")
        own = tables[f"dms_sample.{table}"] | {"entity": table}
        declared[name] = own | ({"properties": MERGE_ON_READ} if kind == "mor" else {})
    extracts, renamed = (
        tables["sp500.constituents"],
        _read(ROOT / "conf/hudi/tables.yml")["sp500.constituents"],
    )
    extracts |= {"rename": extracts["rename"] | renamed["rename"], "entity": "constituents"}
    for kind in KINDS:
        declared[f"{kind}.constituents"] = extracts | ({"properties": MERGE_ON_READ} if kind == "mor" else {})
    project = TemporaryProject.make(
        tmp_path_factory.mktemp("bundled") / "project", sources, declared, as_shipped=True, env="hudi"
    )
    shutil.copytree(DATA / "01_raw", project.landing, dirs_exist_ok=True)
    project.run("ingestion", "cdc_merge", "scd2")
    return project


@pytest.mark.parametrize("name", TABLES)
def test_current_table_is_the_database_after_its_last_change(bundled: TemporaryProject, name: str) -> None:
    current, history = bundled.arrow(name), bundled.arrow(f"{name}_history")
    assert differences_from_expected(name.partition(".")[2], current) == (0, 0)
    is_open = history.filter(history["is_current"])
    assert is_open.num_rows == current.num_rows == bundled.state(name).rows > 0
    assert differences(current, is_open, [c for c in current.column_names if not c.startswith("_")]) == 0


@pytest.mark.parametrize("kind", KINDS)
def test_as_of_each_extract_the_history_is_that_extract(bundled: TemporaryProject, kind: str) -> None:
    history = bundled.arrow(f"{kind}.constituents_history")
    assert extracts_differing(history, lambda n: n.replace(" ", "_").replace("-", "_")) == ([], 189, 21)
