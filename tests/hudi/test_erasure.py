"""An erasure of Hudi tables: they are those of a lake without the subject, and no file holds it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from harness.erasures import ANNA, CARL, STORED, made, rows
from harness.soak import only_in_soak

from kedro_lakehouse.erasure.erase import erase
from kedro_lakehouse.file_search.search import search_files
from kedro_lakehouse.file_search.wanted import Wanted
from kedro_lakehouse.project import Project, activate

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.spark, only_in_soak]


def test_a_subject_is_gone_from_tables_and_files(tmp_path: Path) -> None:
    without = made(tmp_path / "without", whole=False)
    expected = {table: rows(without, table) for table in STORED}
    project = made(tmp_path / "whole", whole=True)
    evidence = erase(activate(Project.load(str(project.path / "conf"), None)), [ANNA])
    project.run("ingestion", "cdc_merge", "scd2")
    for table in STORED:
        assert rows(project, table) == expected[table], table
    assert evidence.is_done, (evidence.found, evidence.pending)
    lake = str(project.path / "lakehouse")
    assert search_files([lake], Wanted.of([CARL], ["id", "customer"])).found
    assert search_files([lake], Wanted.of([ANNA, "Anna Q. Vandermeulen"], ["id", "customer"])).found == []
