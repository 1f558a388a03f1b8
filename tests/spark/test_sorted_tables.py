"""Tables that are written in an order of their rows: a sort looks at the rows once before it moves them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from harness.project import SMALL, TemporaryProject, write_text

from kedro_lakehouse.commits.target import refold
from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

SOURCES = {
    "shop": {
        "type": "extract", "path": "${globals:landing}/shop", "pattern": "*.csv", "file_format": "csv",
        "extract_time": {"from": "name", "pattern": "%Y-%m-%d"},
    }
}  # fmt: skip
TABLES = {
    "shop.item": {"source": "shop", "keys": ["id"], "history": True, "sort_by": ["id"]},
    "shop.ranged": {
        "source": "shop", "entity": "item", "keys": ["id"],
        "properties": {"write.distribution-mode": "range"}, "sort_by": ["name"],
    },
    "shop.heap": {
        "source": "shop", "entity": "item", "keys": [], "write": "append", "sort_by": ["name"],
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    made = TemporaryProject.make(tmp_path_factory.mktemp("sorted") / "project", SOURCES, TABLES)
    made.write("spark", SMALL | {"spark.sql.shuffle.partitions": "4"}, env="local")
    land(made.landing, 1, range(40))
    made.run()
    land(made.landing, 2, range(1, 41))
    made.run()
    return made


def land(landing: Path, day: int, ids: range) -> None:
    rows = "".join(f"{i},n{i}\n" for i in ids)
    write_text(landing / f"shop/item/2026-01-{day:02}.csv", f"id,name\n{rows}")


@pytest.mark.parametrize("table", ["shop.item", "shop.ranged"])
def test_rows_are_counted_once_however_often_they_are_read(project, table):
    assert sorted(int(r["id"]) for r in project.rows(table)) == list(range(1, 41))
    counts = [r for r in project.ops("batches") if (r["table"], r["stage"]) == (table, "current")]
    assert [(r["inserted"], r["deleted"]) for r in sorted(counts, key=lambda r: r["batch"])] == [
        (40, 0),
        (1, 1),
    ]


def test_rows_without_keys_are_counted_once_too(project):
    assert len(project.rows("shop.heap")) == 80


def test_a_history_is_folded_again_in_its_order(project):
    before = project.rows("shop.item_history")
    refold(project._project.bind(TableName("shop", "item")), "history")
    after = project.rows("shop.item_history")
    assert sorted(map(repr, after)) == sorted(map(repr, before))
    assert len(after) == 41
