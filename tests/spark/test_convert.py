"""Plain files become Iceberg tables, each file once; SQL changes them, and the way back leads to before."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from harness.project import TemporaryProject, write_text
from harness.reviews import CATEGORIES, TYPES, land_reviews, land_reviews_as_csv, reviews

from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    import pyarrow as pa

pytestmark = pytest.mark.spark

FOLDER = "${globals:landing}/reviews"
TABLES: dict[str, Any] = {
    "reviews.all_reviews": {"path": f"{FOLDER}/parquet", "properties": {"format-version": "2"}},
    "reviews.adopted": {"path": f"{FOLDER}/parquet", "mode": "in_place"},
    "reviews.from_csv": {"path": f"{FOLDER}/csv", "file_format": "csv", "types": TYPES},
    "reviews.by_category": {
        "path": f"{FOLDER}/parquet", "partition_by": ["product_category"], "sort_by": ["review_date"],
    },
}  # fmt: skip
ALL = ("reviews.all_reviews", "reviews.adopted", "reviews.from_csv", "reviews.by_category")
ROWS = 300


def rows_of(table: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in table.to_pylist())


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    made = TemporaryProject.make(tmp_path_factory.mktemp("convert") / "project", {}, {})
    made.write("convert", TABLES)
    land_reviews(made.landing / "reviews/parquet", files=2, rows=ROWS)
    land_reviews_as_csv(made.landing / "reviews/csv", files=2, rows=ROWS)
    made.run("convert")
    return made


@pytest.mark.parametrize("table", ALL)
def test_a_table_holds_what_the_files_hold(project, table):
    wanted = [row for seed in (1, 2) for row in rows_of(reviews(ROWS, seed))]
    assert rows_of(project.arrow(table)) == sorted(wanted)
    state = project.state(table)
    assert (state.rows, state.batch, state.branches) == (2 * ROWS, 1, [])


def test_files_in_place_are_the_tables_own_and_copies_are_not(project):
    def folders(table: str) -> set[str]:
        found = project._project.catalog.find(TableName(*table.split(".")))
        return {
            str(Path(f["file_path"].removeprefix("file://")).parent)
            for f in found.inspect.files().to_pylist()
        }

    assert folders("reviews.adopted") == {str(project.landing / "reviews/parquet")}
    assert not folders("reviews.adopted") & folders("reviews.all_reviews")


def test_a_run_without_new_files_changes_nothing(project):
    snapshots = [project.state(table).snapshot_id for table in ALL]
    assert project.run("convert") == []
    assert [project.state(table).snapshot_id for table in ALL] == snapshots


def test_sql_changes_the_table_and_the_way_back_leads_to_before(project, answer):
    name, session = "lake.reviews.all_reviews", project._project.session
    before = rows_of(project.arrow("reviews.all_reviews"))
    session.sql(f"UPDATE {name} SET star_rating = 5 WHERE product_category = 'Watches' AND star_rating = 4")
    session.sql(f"DELETE FROM {name} WHERE product_category = 'Watches' AND star_rating = 1")
    session.sql(
        f"MERGE INTO {name} t USING (SELECT * FROM {name} WHERE review_id = 'R001000000000') s "
        "ON t.review_id = s.review_id WHEN MATCHED THEN UPDATE SET t.marketplace = 'UK'"
    )
    session.sql(f"INSERT INTO {name} SELECT * FROM lake.reviews.adopted LIMIT 1")
    stars = {r[5] for r in rows_of(project.arrow("reviews.all_reviews")) if r[6] == "Watches"}
    assert stars == {2, 3, 5}
    done = answer("rollback", "reviews.all_reviews", "--to-batch", "1", "--yes")
    assert [s["rows"] for s in done["stored"]] == [2 * ROWS]
    assert rows_of(project.arrow("reviews.all_reviews")) == before


def test_new_files_are_added_once_also_after_a_rollback(project, answer):
    land_reviews(project.landing / "reviews/parquet", files=3, rows=ROWS)
    project.run("convert")
    whole = rows_of(project.arrow("reviews.adopted"))
    assert len(whole) == 3 * ROWS
    for table in ("reviews.adopted", "reviews.all_reviews"):
        answer("rollback", table, "--to-batch", "1", "--yes")
        assert project.state(table).rows == 2 * ROWS
    project.run("convert")
    for table in ("reviews.adopted", "reviews.all_reviews", "reviews.by_category"):
        assert rows_of(project.arrow(table)) == whole
        assert project.state(table).batch == 2


def test_a_partitioned_and_sorted_table_plans_less(project):
    import pyiceberg.expressions as built

    def planned(table: str) -> int:
        found = project._project.catalog.find(TableName(*table.split(".")))
        watches = built.EqualTo("product_category", "Watches")
        return sum(task.file.file_size_in_bytes for task in found.scan(row_filter=watches).plan_files())

    assert planned("reviews.by_category") < 0.5 * planned("reviews.all_reviews")
    assert len(CATEGORIES) > 5


def test_text_that_does_not_fit_is_refused_and_nothing_is_added(project):
    header = ",".join(reviews(1, 1).column_names)
    write_text(project.landing / "reviews/csv/wrong.csv", f"{header}\nUS,C,R,P,title,five,Books,2005-01-01\n")
    failed = project.failures("convert")
    assert [getattr(error, "code", error) for error in failed.values()] == ["UNREADABLE_FILE"]
    assert project.state("reviews.from_csv").rows == 2 * ROWS
    assert project.state("reviews.from_csv").branches == []
