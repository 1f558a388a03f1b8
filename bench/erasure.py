"""What does an erasure cost: 100 subjects among five million rows in 50 files, and the search afterwards?

Usage: ``.venv/bin/python bench/erasure.py [--rows 5000000] [--files 50] [--subjects 100]
[--version 2]``.

A change log, a current table and a history are loaded from parquet files; their rows are about
``--customers`` persons. Then ``--subjects`` of these are erased. It prints the seconds, the bytes that were
written beside the bytes of the files that held rows of the erased persons, and what the search found. For
comparison it deletes the same rows from a copy of the current table by Iceberg's own DELETE, and rewrites
the files with deletes.
"""

from __future__ import annotations

import argparse
import random
import shutil
import time
from contextlib import redirect_stdout
from sys import stderr
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from lake import ROOT, BenchProject, load

from kedro_lakehouse.erasure import erase as erasure
from kedro_lakehouse.file_search.search import search_files
from kedro_lakehouse.file_search.wanted import Wanted
from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from pathlib import Path

    from kedro_lakehouse.project import Project

NAME = TableName("gdpr", "purchase")
SOURCES = {
    "shop": {
        "type": "changes",
        "path": "${globals:landing}",
        "pattern": "*.parquet",
        "file_format": "parquet",
    }
}
TABLES: dict[str, Any] = {
    str(NAME): {"source": "shop", "keys": ["id"], "order_by": ["n"], "history": True, "subject": "customer"}
}
FIRST = 7_000_000
"""The first customer's number: no other column has numbers like these."""


def land(folder: Path, rows: int, files: int, customers: int) -> None:
    """Write parquet files; the rows of a customer lie in any of them."""
    chance = random.Random(1)  # noqa: S311 - reproducible
    each = rows // files
    for number in range(files):
        ids = range(number * each, (number + 1) * each)
        table = pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "n": pa.array([1] * each, pa.int32()),
                "customer": pa.array([FIRST + chance.randrange(customers) for _ in ids], pa.int64()),
                "product": [f"product {i % 997}" for i in ids],
                "amount": pa.array([i % 1000 for i in ids], pa.int32()),
                "street": [f"{i % 400} Elm Street" for i in ids],
            }
        )
        pq.write_table(table, folder / f"{number:03}.parquet")


def table_of(project: Project, name: TableName) -> Any:
    """The stored table, as pyiceberg has it."""
    return project.catalog.find(name)


def touched(project: Project, name: TableName, wanted: Wanted) -> tuple[int, int]:
    """Bytes of a table's files that hold rows of the subjects, and of all of its files."""
    files = [task.file for task in table_of(project, name).scan().plan_files()]
    report = search_files([f.file_path.removeprefix("file:") for f in files], wanted)
    held = {one.path for one in report.found}
    sizes = {f.file_path.removeprefix("file:"): f.file_size_in_bytes for f in files}
    return sum(size for path, size in sizes.items() if path in held), sum(sizes.values())


def paths(project: Project, name: TableName) -> dict[str, int]:
    """The data and delete files of a table's newest state, with their bytes."""
    tasks = list(table_of(project, name).scan().plan_files())
    data = {t.file.file_path: t.file.file_size_in_bytes for t in tasks}
    return data | {d.file_path: d.file_size_in_bytes for t in tasks for d in t.delete_files}


def bare(project: Project, subjects: list[int], version: int) -> float:
    """The seconds of Iceberg's own DELETE, and of the rewrite of the files with deletes, on a copy."""
    session = project.session
    mode = f"TBLPROPERTIES ('write.delete.mode'='merge-on-read', 'format-version'='{version}')"
    session.sql(f"CREATE TABLE lake.gdpr.copied USING iceberg {mode} AS SELECT * FROM {NAME.sql}")
    begun = time.perf_counter()
    listed = ", ".join(map(str, subjects))
    session.sql(f"DELETE FROM lake.gdpr.copied WHERE customer IN ({listed})")
    session.sql(
        "CALL lake.system.rewrite_data_files(table => 'gdpr.copied', "
        "options => map('delete-file-threshold', '1', 'min-file-size-bytes', '0'))"
    ).collect()
    seconds = time.perf_counter() - begun
    session.sql("DROP TABLE lake.gdpr.copied PURGE")  # or the search would find what its old files hold
    return seconds


def main() -> None:
    """Load, erase, search, compare."""
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--rows", type=int, default=5_000_000)
    words.add_argument("--files", type=int, default=50)
    words.add_argument("--customers", type=int, default=50_000)
    words.add_argument("--subjects", type=int, default=100)
    words.add_argument("--version", type=int, default=2, choices=(2, 3), help="of Iceberg's format")
    given = words.parse_args()
    folder = ROOT / ".bench/erasure"
    shutil.rmtree(folder, ignore_errors=True)
    tables = {str(NAME): TABLES[str(NAME)] | {"properties": {"format-version": str(given.version)}}}
    made = BenchProject(folder).write(SOURCES, tables)
    (folder / "conf/local/credentials.yml").write_text("erasure: {key: a key of the benchmark only}\n")
    (made.landing / NAME.table).mkdir()
    land(made.landing / NAME.table, given.rows, given.files, given.customers)
    with redirect_stdout(stderr):
        project = made.run("ingestion", "cdc_merge", "scd2")
    subjects = random.Random(2).sample(range(FIRST, FIRST + given.customers), given.subjects)  # noqa: S311
    wanted = Wanted.of([str(s) for s in subjects], ["customer"])
    stored = [NAME, NAME.with_suffix("history"), NAME.with_suffix("changes")]
    concerned = {name: touched(project, name, wanted) for name in stored}
    before = {name: paths(project, name) for name in stored}
    seconds = bare(project, subjects, given.version)
    print(f"load average {load()}; bare DELETE and rewrite of the current table: {seconds:.1f} s")
    begun = time.perf_counter()
    evidence = erasure.erase(project, list(wanted.values))
    print(f"erasure, all of it: {time.perf_counter() - begun:.1f} s; done: {evidence.is_done}")
    for name in stored:
        after = paths(project, name)
        written = sum(size for path, size in after.items() if path not in before[name])
        held, whole = concerned[name]
        removed = next((one["removed"] for one in evidence.removed if one["table"] == str(name)), 0)
        print(
            f"{name}: {removed:,} rows removed; {written:,} bytes written, {held:,} of {whole:,} bytes "
            f"touched: {written / max(held, 1):.2f}"
        )
    begun = time.perf_counter()
    report = search_files([str(folder)], wanted)
    print(
        f"search of {report.files:,} files, {report.bytes:,} bytes: {time.perf_counter() - begun:.1f} s, "
        f"{len(report.found)} hold a subject"
    )


if __name__ == "__main__":
    main()
