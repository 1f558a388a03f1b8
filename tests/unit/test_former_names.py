"""What users and plug-ins imported before the rooms were redrawn is still there under its former name."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

pytestmark = pytest.mark.unit

FORMER = [
    ("kedro_lakehouse.search", "open_search", "kedro_lakehouse.column_search.project_search", "open_search"),
    ("kedro_lakehouse.columns.embedders.base", "Embedder",
     "kedro_lakehouse.column_search.embedders.base", "Embedder"),
    ("kedro_lakehouse.columns.indexes.base", "VectorIndex",
     "kedro_lakehouse.column_search.indexes.base", "VectorIndex"),
    ("kedro_lakehouse.datasets", "UnjudgedDataset", "kedro_lakehouse.datasets", "UnvalidatedDataset"),
    ("kedro_lakehouse.datasets", "AgeDataset", "kedro_lakehouse.datasets", "LastCommitAgeDataset"),
]  # fmt: skip


@pytest.mark.parametrize(("module", "name", "now_in", "now"), FORMER)
def test_a_former_name_is_the_same_object(module: str, name: str, now_in: str, now: str) -> None:
    found = getattr(importlib.import_module(module), name)
    assert found is getattr(importlib.import_module(now_in), now)


def test_a_former_name_works_in_a_new_process() -> None:
    code = "from kedro_lakehouse.columns.embedders.base import ModelName; print(ModelName.__module__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "kedro_lakehouse.column_search.embedders.base"
