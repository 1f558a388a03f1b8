"""The notebook of one table in each format, on Hudi: only its first line is another."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import nbformat
import pytest
from harness.project import ROOT, TemporaryProject
from harness.soak import only_in_soak
from nbclient import NotebookClient

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.e2e, only_in_soak]

FIRST = 'ENV, FORMATS = "delta", ["iceberg", "delta"]\n'


def test_the_same_cells_run_on_hudi(tmp_path: Path) -> None:
    project = TemporaryProject.make(tmp_path / "project", {}, {}, env="hudi")
    (project.path / "notebooks").mkdir()
    shutil.copytree(ROOT / "conf/hudi", project.path / "conf/hudi")
    (project.path / "conf/hudi/tables.yml").unlink()  # of a table that this project has not
    notebook = nbformat.read(ROOT / "notebooks/05-one-table-in-each-format.ipynb", as_version=4)
    first = next(cell for cell in notebook.cells if cell.cell_type == "code")
    assert first.source.startswith(FIRST)
    first.source = first.source.replace(FIRST, 'ENV, FORMATS = "hudi", ["hudi"]\n')
    folder = {"metadata": {"path": str(project.path / "notebooks")}}
    done = NotebookClient(notebook, timeout=300, kernel_name="python3", resources=folder).execute()
    printed = "".join(out.get("text") or "" for cell in done.cells for out in cell.get("outputs", []))
    assert "`spark_catalog`.`products`.`in_hudi`: 3 products for 175" in printed
    assert "hudi dropped: products.in_hudi_changes" in printed
    assert not list((project.path / "lakehouse/warehouse/products").glob("*"))
