"""Tables without keys: rows are added once, or the newest file stands in place of all rows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from harness.project import Outcome, TemporaryProject, write_parquet

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.spark

# Without a sequence and a commit time DMS orders by file name and row number, as change-only files do.
SOURCES: dict[str, Any] = {"files": {"type": "dms", "path": "${globals:landing}"}}
TABLES: dict[str, Any] = {
    "files.added": {"source": "files", "write": "append", "entity": "same"},
    "files.swapped": {"source": "files", "write": "replace", "entity": "same"},
    "files.late": {"source": "files", "write": "replace"},
    "files.at_once": {"source": "files", "write": "replace"},
}
ROW = {"Op": pa.string(), "word": pa.string(), "n": pa.int32()}
WIDER = {"Op": pa.string(), "word": pa.string(), "n": pa.int64(), "more": pa.string()}


def land(folder: Path, number: int, *rows: tuple[str, int | None], schema: Any = None) -> None:
    facts = [{"Op": "I", "word": word, "n": n} for word, n in rows]
    write_parquet(folder / f"2026010{number}-000000000.parquet", facts, schema or ROW)


FIRST = [("twice", 1), ("twice", 1), ("once", 1), ("once", None)]
SECOND = [("twice", 1), ("new", 2**40)]


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    return TemporaryProject.make(tmp_path_factory.mktemp("plain") / "project", SOURCES, TABLES)


@pytest.fixture(scope="module")
def first(project: TemporaryProject) -> Outcome:
    land(project.landing / "same", 1, *FIRST)
    land(project.landing / "late", 5, ("newest", 5))
    land(project.landing / "at_once", 1, *FIRST)
    land(project.landing / "at_once", 2, *SECOND, schema=WIDER)
    return project.attempt()


@pytest.fixture(scope="module")
def second(project: TemporaryProject, first: Outcome) -> Outcome:
    land(project.landing / "same", 2, *SECOND, schema=WIDER)
    land(project.landing / "late", 2, ("older", 2))
    return project.attempt()


def words(project: TemporaryProject, table: str) -> Counter[tuple[str, int | None]]:
    return Counter((r["word"], r["n"]) for r in project.rows(f"files.{table}"))


def test_rows_that_are_alike_are_all_kept(project, second):
    assert second.failed == {}
    assert words(project, "added") == Counter(FIRST + SECOND)
    assert {tuple(r["_order"].values()) for r in project.rows("files.added")} == {
        *(("20260101-000000000.parquet", n) for n in range(1, 5)),
        *(("20260102-000000000.parquet", n) for n in range(1, 3)),
    }


def test_a_replaced_table_holds_the_newest_file_alone(project, first, second):
    assert words(project, "swapped") == Counter(SECOND)
    assert [o.counts("files.swapped", "current") for o in (first, second)] == [
        [{"inserted": 4, "deleted": 0}],
        [{"inserted": 2, "deleted": 4}],
    ]


def test_of_two_files_in_one_batch_the_newer_one_stands_alone(project, first):
    assert words(project, "at_once") == Counter(SECOND)
    assert project.state("files.at_once").batch == 1


def test_an_older_file_replaces_nothing(project, second):
    assert words(project, "late") == Counter([("newest", 5)])
    assert project.state("files.late").batch == 2


def test_new_columns_are_null_in_older_rows(project, second):
    assert {r["more"] for r in project.rows("files.added")} == {None}
    assert project.state("files.added").columns["n"].simpleString() == "bigint"


def test_a_run_without_new_files_adds_nothing(project, second):
    again = project.attempt()
    assert (again.reports, again.failed) == ([], {})
    assert words(project, "added") == Counter(FIRST + SECOND)
