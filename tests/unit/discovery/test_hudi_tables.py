"""Hudi tables that Hudi 1.2 wrote (tests/data/hudi/write_tables.py), read without any of its classes."""

from __future__ import annotations

import json
import tarfile

import fastavro
import pytest
from harness.places import HUDI

from kedro_lakehouse.discovery.hudi import hudi_dataset, hudi_rows
from kedro_lakehouse.discovery.look import find_datasets
from kedro_lakehouse.discovery.tree import list_tree

pytestmark = pytest.mark.unit

COLUMNS = [
    ("id", "bigint"), ("part", "string"), ("price", "decimal(10,2)"), ("at", "timestamp"), ("site", "string"),
]  # fmt: skip


@pytest.fixture
def tables(tmp_path):
    """The tables of a state, in a folder of this test's own."""

    def unpacked(state):
        with tarfile.open(HUDI / f"{state}.tar.gz") as packed:
            packed.extractall(tmp_path / state, filter="data")
        return tmp_path / state

    return unpacked


def ids(folder, root="stock"):
    return sorted(hudi_rows(list_tree(str(folder)), root, 100)["id"].to_pylist())


def test_what_was_replaced_or_updated_counts_once(tables):
    # Inserted 1 to 8 by turns into two partitions; 1 updated; one partition replaced by 2 and 9.
    before = tables("before")
    found = hudi_dataset(list_tree(str(before)), "stock", "found.stock")
    assert [(c.name, c.type) for c in found.columns] == COLUMNS
    assert (found.rows, found.rows_exact, found.partitions) == (6, True, ("site",))
    assert ids(before) == [1, 2, 3, 5, 7, 9]


def test_a_later_state_has_the_new_column_and_row(tables):
    after = tables("after")
    found = hudi_dataset(list_tree(str(after)), "stock", "found.stock")
    assert [(c.name, c.type) for c in found.columns] == [*COLUMNS, ("checked_by", "string")]
    assert ids(after) == [1, 2, 3, 5, 7, 9, 10]


def test_rows_in_log_files_are_told_not_to_be_merged(tables):
    found = {one.name: one for one in find_datasets(str(tables("before")))}["found.meter"]
    assert (found.rows, found.rows_exact, found.files) == (5, False, 2)
    assert "log files are not merged" in found.note


def test_a_file_that_no_commit_completed_is_not_read(tables):
    before = tables("before")
    (newest,) = sorted(before.glob("stock/.hoodie/timeline/*.commit"))[-1:]
    newest.unlink()  # the update of 1: its file is there, its commit is not
    found = hudi_dataset(list_tree(str(before)), "stock", "found.stock")
    assert found.rows == 6
    parts = hudi_rows(list_tree(str(before)), "stock", 100).to_pylist()
    assert [row["part"] for row in parts if row["id"] == 1] == ["part 1"]


def test_a_timeline_of_json_as_before_hudi_1_says_the_same(tables):
    before = tables("before")
    meta = before / "stock/.hoodie"
    for file in (meta / "timeline").glob("*_*.*commit"):
        with file.open("rb") as stored:
            (commit,) = fastavro.reader(stored)
        instant, _, action = file.name.replace("_", ".", 1).partition(".")
        text = json.dumps(commit, default=str)
        (meta / f"{instant}.{action.rpartition('.')[2]}").write_text(text, encoding="utf-8")
        file.unlink()
    properties = meta / "hoodie.properties"
    text = properties.read_text(encoding="utf-8")
    properties.write_text(
        text.replace("hoodie.timeline.layout.version=2", "hoodie.timeline.layout.version=1")
    )
    found = hudi_dataset(list_tree(str(before)), "stock", "found.stock")
    assert ([(c.name, c.type) for c in found.columns], found.rows) == (COLUMNS, 6)
