"""Reviews as an Iceberg table: by copy and in place, plain, partitioned and sorted, two ways to write (S4).

Usage: ``.venv/bin/python bench/reviews.py [--files 20] [--rows 50000]``.

Seeded parquet files become tables by pipeline ``convert``. One query (six columns, one category, three
months) is timed on each layout, with the files and bytes that its plan names; one UPDATE and one DELETE are
timed on copy-on-write and merge-on-read, then a read, a compaction, and the read again. Exits 1 where the
partitioned and sorted table does not spare 70 % of the bytes.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import sys
import time
from typing import TYPE_CHECKING, Any, Final

from lake import ROOT, BenchProject, load, print_machine

from kedro_lakehouse.config.maintenance import CompactConfig
from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from kedro_lakehouse.project import Project

sys.path.append(str(ROOT / "tests"))
from harness.reviews import land_reviews

GOAL: Final = 0.7
FOLDER: Final = "${globals:landing}/reviews"
BY_CATEGORY: Final = {"path": FOLDER, "partition_by": ["product_category"]}
COPY: Final = {f"write.{what}.mode": "copy-on-write" for what in ("delete", "update", "merge")}
TABLES: Final[dict[str, dict[str, Any]]] = {
    "reviews.all_reviews": {"path": FOLDER},
    "reviews.adopted": {"path": f"{FOLDER}_adopted", "mode": "in_place"},
    "reviews.partitioned": BY_CATEGORY,
    # Files of some hundred kilobytes, so that the sort has files to tell apart at this size.
    "reviews.sorted": BY_CATEGORY
    | {
        "sort_by": ["review_date"],
        "properties": {"write.target-file-size-bytes": "400000", "write.distribution-mode": "range"},
    },
    "reviews.copy_on_write": {"path": FOLDER, "properties": COPY},
    "reviews.merge_on_read": {"path": FOLDER},
    "reviews.deletion_vectors": {"path": FOLDER, "properties": {"format-version": "3"}},
}
COLUMNS: Final = "customer_id, review_id, product_id, product_title, star_rating, review_date"
WHERE: Final = "product_category = 'Watches' AND review_date BETWEEN DATE'2005-01-01' AND DATE'2005-03-31'"


def timed(work: Any, times: int = 5) -> float:
    """The median of some runs, after one to warm up."""
    seconds = []
    for _ in range(times + 1):
        begun = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - begun)
    return statistics.median(seconds[1:])


def planned(project: Project, table: str) -> tuple[int, int]:
    """How many files and bytes the query's plan names."""
    import pyiceberg.expressions as built

    found = project.catalog.find(TableName(*table.split(".")))
    wanted = built.And(
        built.EqualTo("product_category", "Watches"),
        built.GreaterThanOrEqual("review_date", "2005-01-01"),
        built.LessThanOrEqual("review_date", "2005-03-31"),
    )
    sizes = [task.file.file_size_in_bytes for task in found.scan(row_filter=wanted).plan_files()]
    return len(sizes), sum(sizes)


def layouts(project: Project) -> float:
    """Time the query on each layout; the fraction of bytes that the best one spares."""
    print("\n| layout | query, s | files planned | MB planned |\n| --- | --- | --- | --- |")
    sizes = {}
    for table in ("reviews.all_reviews", "reviews.adopted", "reviews.partitioned", "reviews.sorted"):
        query = f"SELECT {COLUMNS} FROM lake.{table} WHERE {WHERE}"
        seconds = timed(lambda query=query: project.session.sql(query).toPandas())
        files, sizes[table] = planned(project, table)
        print(f"| {table} | {seconds:.2f} | {files} | {sizes[table] / 1e6:.2f} |", flush=True)
    return 1 - sizes["reviews.sorted"] / sizes["reviews.all_reviews"]


def modes(project: Project) -> None:
    """Time statements on each way to write, and a read before and after a compaction."""
    print("\n| way | update, s | delete, s | read, s | after compaction, s | delete files after |")
    print("| --- | --- | --- | --- | --- | --- |")
    compact = project.maintenance.model_copy(
        update={"compact": CompactConfig(small_files=2, deleted_fraction=0.000001)}
    )
    for table in ("reviews.copy_on_write", "reviews.merge_on_read", "reviews.deletion_vectors"):
        name, statements = TableName(*table.split(".")), []
        for statement in (
            f"UPDATE lake.{table} SET star_rating = 5 WHERE product_category = 'Watches' AND star_rating = 4",
            f"DELETE FROM lake.{table} WHERE product_category = 'Watches' AND star_rating = 1",
        ):
            begun = time.perf_counter()
            project.session.sql(statement)
            statements.append(time.perf_counter() - begun)
        read = f"SELECT count(*), avg(star_rating), max(product_title) FROM lake.{table}"
        before = timed(lambda read=read: project.session.sql(read).collect())
        work = project.format_of(name).maintenance
        for action in [a for a in work.plan(name, compact) if a.work == "compact"]:
            work.perform(name, action, compact)
        after = timed(lambda read=read: project.session.sql(read).collect())
        left = work.storage(name).delete_files
        print(
            f"| {table} | {statements[0]:.2f} | {statements[1]:.2f} | {before:.2f} | {after:.2f} | {left} |",
            flush=True,
        )


def main() -> int:
    """Convert, measure and print."""
    parser = argparse.ArgumentParser(description="Reviews as an Iceberg table.")
    parser.add_argument("--files", type=int, default=20)
    parser.add_argument("--rows", type=int, default=50_000, help="rows of each file")
    options = parser.parse_args()
    folder = ROOT / ".bench/reviews"
    shutil.rmtree(folder, ignore_errors=True)
    bench = BenchProject(folder).write({}, {}, conversions=TABLES)
    for name in ("reviews", "reviews_adopted"):
        land_reviews(bench.landing / name, files=options.files, rows=options.rows)
    print(f"load average before: {load()}", flush=True)
    begun = time.perf_counter()
    project = bench.run("convert")
    print(
        f"{len(TABLES)} tables of {options.files * options.rows:,} rows: {time.perf_counter() - begun:.1f} s"
    )
    print_machine(project, "pyiceberg", "pyarrow")
    spared = layouts(project)
    modes(project)
    print(f"\nbytes spared by partitions and order: {spared:.0%}; load average after: {load()}")
    return int(spared < GOAL)


if __name__ == "__main__":
    sys.exit(main())
