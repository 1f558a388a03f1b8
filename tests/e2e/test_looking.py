"""Looking at a lake: kedro-viz without a JVM, and the notebooks in one kernel on one Spark."""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import nbformat
import pytest
from harness.guard import ATTEMPT, guarded, kedro
from harness.project import DATA, ROOT, TemporaryProject
from harness.soak import only_in_soak
from nbclient import NotebookClient

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.e2e

NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SOURCES = {
    "dms_sample": {
        "type": "dms", "path": "${globals:landing}/dms_sample",
        "sequence_column": "change_seq", "timestamp_column": "last_update_time",
    },
    "sp500": {
        "type": "extract", "path": "${globals:landing}/sp500", "pattern": "*_constituents.csv.gz",
        "extract_time": {"from": "name", "pattern": "%Y-%m-%dT%H%M%SZ"}, "file_format": "csv",
    },
}  # fmt: skip
TABLES = {
    "dms_sample.person": {
        "source": "dms_sample", "keys": ["id"], "history": True,
        "personal": ["full_name", "Last_Name", "email"], "public": ["last_name"],
    },
    "sp500.constituents": {
        "source": "sp500", "keys": ["Symbol"], "history": True,
        "rename": {"Name": "Security", "Sector": "GICS Sector"},
    },
}  # fmt: skip
FRESH = """
%reset -f
get_ipython().extension_manager.loaded.discard("kedro.ipython")
"""
EXTRACTS = 10


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    """Two of the bundled tables, the second with its first extracts only."""
    project = TemporaryProject.make(tmp_path_factory.mktemp("looking") / "project", SOURCES, TABLES)
    shutil.copytree(DATA / "01_raw/dms_sample/person", project.landing / "dms_sample/person")
    extracts = project.landing / "sp500/constituents"
    extracts.mkdir(parents=True)
    for file in sorted((DATA / "01_raw/sp500/constituents").iterdir())[:EXTRACTS]:
        shutil.copy(file, extracts)
    (project.path / ".viz").mkdir()
    (project.path / ".viz/stats.json").write_text('{"mine": {"rows": 3}}', encoding="utf-8")
    project.run()
    return project


@dataclass(frozen=True)
class Viz:
    """What ``kedro viz build`` wrote, by the names of nodes and datasets."""

    graph: dict[str, Any]
    nodes: dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def viz(lake: TemporaryProject) -> Viz:
    done = guarded(kedro("viz", "build", "--include-previews"), cwd=lake.path)
    assert done.returncode == 0, done.stderr
    assert ATTEMPT not in done.stderr
    assert "could not be previewed" not in done.stderr
    api = lake.path / "build/api"
    graph = json.loads((api / "main").read_text(encoding="utf-8"))
    nodes = {}
    for node in graph["nodes"]:
        name = node["name"]
        if node["type"] == "task":  # whose name leaves its namespace out
            name = f"{max(node['modular_pipelines'], key=len)}.{name}"
        if (api / "nodes" / node["id"]).is_file():
            nodes[name] = json.loads((api / "nodes" / node["id"]).read_text(encoding="utf-8"))
    return Viz(graph, nodes)


def test_viz_has_the_layers_of_the_catalog(viz: Viz) -> None:
    assert viz.graph["layers"][0] == "landing"
    tables = {"landing", "quarantine", "changes", "current", "history"}
    assert set(viz.graph["layers"]) == tables | {"quality", "ops", "reporting"}


def test_viz_previews_tables_without_personal_values(viz: Viz) -> None:
    shown = viz.nodes["dms_sample.person.current"]
    assert shown["preview_type"] == "TablePreview"
    assert shown["preview"]["columns"] == ["id", "full_name", "last_name", "first_name", "email"]
    assert len(shown["preview"]["data"]) == 5
    for row in shown["preview"]["data"]:
        assert (row[1], row[4]) == ("(personal)", "(personal)")
        assert "(personal)" not in (row[2], row[3])
    quarantined = viz.nodes["sp500.constituents.quarantine"]["preview"]
    assert quarantined["columns"] == ["_batch", "_position", "_reasons", "_columns", "_op"]
    assert quarantined["data"]


def test_viz_tells_rows_and_last_commit_from_metadata(viz: Viz, lake: TemporaryProject) -> None:
    rows = len(lake.rows("dms_sample.person", "id"))
    figures = viz.nodes["dms_sample.person.current"]["stats"]
    assert figures["rows"] == rows
    assert set(figures) == {"rows", "columns", "file_size"}
    assert json.loads((lake.path / ".viz/stats.json").read_text(encoding="utf-8"))["mine"] == {"rows": 3}
    rules = viz.nodes["dms_sample.person.merge"]["preview"]["content"]
    assert f"{rows:,} rows, batch 1" in rules
    committed = lake.state("dms_sample.person").bookmark.committed_at
    assert committed.replace("T", " ")[:19] + " UTC" in rules


def test_viz_shows_the_rules_of_a_table_beside_its_nodes(viz: Viz) -> None:
    for verb, table in {
        "ingest": "person_changes",
        "merge": "person",
        "keep_history": "person_history",
    }.items():
        preview = viz.nodes[f"dms_sample.person.{verb}"]["preview"]
        assert preview["kind"] == "text"
        assert preview["content"].startswith(f"dms_sample.{table}: ")
        assert "\nkeys:\n- id\nhistory: {}\n" in preview["content"]


@pytest.fixture(scope="module")
def printed(lake: TemporaryProject, viz: Viz) -> dict[str, str]:
    """What each notebook printed; they run one after the other, each with nothing of the others."""
    shutil.copytree(ROOT / "notebooks", lake.path / "notebooks")
    lake.write("globals", {"driver_memory": "1g"}, env="local")
    shutil.copytree(ROOT / "conf/delta", lake.path / "conf/delta")
    joined = nbformat.v4.new_notebook()
    for file in NOTEBOOKS:
        cells = nbformat.read(file, as_version=4).cells
        for cell in (nbformat.v4.new_code_cell(FRESH), *cells):
            cell.metadata["of"] = file.stem
            joined.cells.append(cell)
    folder = {"metadata": {"path": str(lake.path / "notebooks")}}
    done = NotebookClient(joined, timeout=120, kernel_name="python3", resources=folder).execute()
    told: dict[str, str] = {file.stem: "" for file in NOTEBOOKS}
    for cell in done.cells:
        for output in cell.get("outputs", []):
            told[cell.metadata["of"]] += output.get("text") or output.get("data", {}).get("text/plain", "")
    return told


@only_in_soak
def test_notebooks_run_and_show_what_they_promise(printed: dict[str, str], lake: TemporaryProject) -> None:
    people = len(lake.rows("dms_sample.person", "id"))
    assert f"{people} people" in printed["01-explore-the-catalog"]
    assert "dms_sample.person.published" in printed["01-explore-the-catalog"]
    assert "members on 2013-01-01" in printed["02-time-travel-and-as-of-joins"]
    members = len(lake.rows("sp500.constituents", "Symbol"))
    assert f"{members} members published by" in printed["02-time-travel-and-as-of-joins"]
    assert "|2000-01-01 00:00:00|NULL" in printed["02-time-travel-and-as-of-joins"]
    assert "| C3|  7.25|" in printed["03-add-a-table"]
    assert "malformed" in printed["04-look-into-quarantine"]
    for path in ("`lake`.`products`.`in_iceberg`", "`spark_catalog`.`products`.`in_delta`"):
        assert f"{path}: 3 products for 175" in printed["05-one-table-in-each-format"]
    assert "delta dropped: products.in_delta_changes" in printed["05-one-table-in-each-format"]
    prices = {(r["sku"], str(r["amount"])) for r in lake.rows("price_lists.price")}
    assert prices == {("A1", "11.00"), ("C3", "7.25")}


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_notebooks_are_committed_without_outputs(file: Path) -> None:
    cells = nbformat.read(file, as_version=4).cells
    assert [c for c in cells if c.get("outputs") or c.get("execution_count")] == []
