"""Full loads: their rows are written as they are read, unless a key has two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from harness.project import Outcome, TemporaryProject, write_text

from kedro_lakehouse.commits.marks import DISTINCT

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

SOURCES: dict[str, Any] = {
    "shop": {
        "type": "dms", "path": "${globals:landing}", "file_format": "csv", "timestamp_column": "ts",
        "csv": {"full_load": {"header": True}, "changes": {"header": True}},
    }
}  # fmt: skip
LOADED: dict[str, list[list[str]]] = {
    "clean": [["1,a,5", "2,b,5"], ["3,c,5"]],
    # The row that comes later in the file is the later one.
    "twice": [["1,old,5", "2,b,5", "1,new,5"]],
    # The same row at the same place of two files is one event; another row there is a tie.
    "again": [["1,a,5", "2,b,5"], ["1,a,5", "2,z,5"]],
    "unkeyed": [["1,a,5", ",b,5", "2,c,many"]],
}
DECLARED = {
    f"shop.{entity}": {
        "source": "shop", "keys": ["id"], "history": True, "max_invalid_fraction": 1.0,
        "types": {"id": "int", "name": "string", "n": "int"}, "on_tie": "delete_wins",
    }
    for entity in LOADED
}  # fmt: skip


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> tuple[TemporaryProject, Outcome]:
    project = TemporaryProject.make(tmp_path_factory.mktemp("loads") / "project", SOURCES, DECLARED)
    for entity, files in LOADED.items():
        for number, rows in enumerate(files, start=1):
            land(project.landing, entity, f"LOAD{number:08}", ["id,name,n", *rows])
    return project, project.attempt()


def land(landing: Path, entity: str, name: str, lines: list[str]) -> None:
    write_text(landing / entity / f"{name}.csv", "\n".join(lines) + "\n")


def names(project: TemporaryProject, table: str) -> list[tuple[int, str]]:
    return sorted((row["id"], row["name"]) for row in project.rows(table))


@pytest.mark.parametrize(
    ("entity", "current"),
    [
        ("clean", [(1, "a"), (2, "b"), (3, "c")]),
        ("twice", [(1, "new"), (2, "b")]),
        ("again", [(1, "a"), (2, "z")]),
        ("unkeyed", [(1, "a")]),
    ],
)
def test_a_load_gives_one_row_a_key(loaded, entity, current):
    project, _ = loaded
    assert names(project, f"shop.{entity}") == current
    history = [r for r in project.rows(f"shop.{entity}_history") if r["is_current"]]
    assert sorted((r["id"], r["name"]) for r in history) == current


def test_repeats_and_ties_are_counted(loaded):
    counts = {e: loaded[1].counts(f"shop.{e}", "ingestion")[0] for e in LOADED}
    told = ("events_in", "applied", "quarantined", "duplicates", "sequence_ties")
    assert {e: tuple(c[n] for n in told) for e, c in counts.items()} == {
        "clean": (3, 3, 0, 0, 0),
        "twice": (3, 3, 0, 0, 0),
        "again": (4, 3, 0, 1, 1),
        "unkeyed": (3, 1, 2, 0, 0),
    }


def test_only_loads_with_distinct_keys_are_marked_as_such(loaded):
    project, _ = loaded
    marked = {e: DISTINCT in project.state(f"shop.{e}_changes").properties for e in LOADED}
    assert marked == {"clean": True, "twice": False, "again": False, "unkeyed": True}


def test_a_later_load_is_compared_with_what_is_there(loaded):
    project, _ = loaded
    land(project.landing, "clean", "LOAD00000009", ["id,name,n", "1,a,5", "4,d,5"])
    again = project.attempt().counts("shop.clean", "ingestion")[0]
    assert (again["events_in"], again["applied"], again["duplicates"]) == (2, 1, 1)
    assert names(project, "shop.clean") == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
