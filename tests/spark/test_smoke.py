"""The shortest whole way: one DMS table, one later change file."""

from __future__ import annotations

import datetime as dt
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from harness.project import write_parquet

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from harness.project import TemporaryProject

pytestmark = pytest.mark.spark

SOURCES = {
    "shop": {
        "type": "dms", "path": "${globals:landing}/shop",
        "sequence_column": "seq", "timestamp_column": "ts",
    }
}  # fmt: skip
ROW = {"id": pa.int64(), "name": pa.string(), "ts": pa.timestamp("us"), "seq": pa.string()}


def at(second: int) -> dt.datetime:
    return dt.datetime(2026, 1, 1, 0, 0, second)  # noqa: DTZ001 - zone-less, as DMS writes it


def test_a_later_file_updates_deletes_and_inserts(make_project: Callable[..., TemporaryProject]) -> None:
    project = make_project(SOURCES, {"shop.item": {"source": "shop", "keys": ["id"], "history": True}})
    folder = project.landing / "shop/item"
    load: list[dict[str, object]] = [
        {"id": i, "name": f"n{i}", "ts": at(0), "seq": None, "day": dt.date(i, 1, 1)} for i in range(1, 5)
    ]
    schema = ROW | {"day": pa.date32()}
    write_parquet(folder / "LOAD00000001.parquet", load, schema)
    project.run()
    changes = [
        {"Op": "U", "id": 1, "name": "new", "ts": at(5), "seq": "10"},
        {"Op": "D", "id": 2, "name": None, "ts": at(6), "seq": "11"},
        {"Op": "I", "id": 9, "name": "n9", "ts": at(7), "seq": "12"},
    ]
    write_parquet(folder / "20260101-000010000.parquet", changes, {"Op": pa.string(), **schema})
    reports = {r.stage: r.counts for r in project.run()}
    rows = {r["id"]: (r["name"], r["day"]) for r in project.rows("shop.item")}
    assert rows == {
        1: ("new", None), 3: ("n3", dt.date(3, 1, 1)), 4: ("n4", dt.date(4, 1, 1)), 9: ("n9", None),
    }  # fmt: skip
    assert reports["current"] == {"inserted": 1, "updated": 1, "deleted": 1, "late": 0, "stale_ignored": 0}
    assert reports["history"] == {"opened": 2, "closed": 2, "rewritten": 0, "removed": 0, "late": 0}
    history = sorted((r["id"], r["name"], r["is_current"]) for r in project.rows("shop.item_history"))
    assert history == [
        (1, "n1", False), (1, "new", True), (2, "n2", False),
        (3, "n3", True), (4, "n4", True), (9, "n9", True),
    ]  # fmt: skip
    assert project.run() == []


def test_no_program_is_started_to_make_a_local_file(make_project: Callable[..., TemporaryProject]) -> None:
    project = make_project(SOURCES, {"shop.item": {"source": "shop", "keys": ["id"]}})
    spark = project._project.session
    hadoop = spark._jvm.org.apache.hadoop
    place = hadoop.fs.Path(f"file://{project.path}/made/by/hadoop")
    files = place.getFileSystem(spark._jsc.hadoopConfiguration())
    assert files.getClass().getSimpleName() == "BareLocalFileSystem"
    files.create(place).close()
    mask = os.umask(0o22)
    os.umask(mask)
    made = project.path / "made/by/hadoop"
    assert made.stat().st_mode & 0o777 == 0o666 & ~mask
    assert made.parent.stat().st_mode & 0o777 == 0o777 & ~mask


def test_python_workers_search_no_archive_of_spark(make_project: Callable[..., TemporaryProject]) -> None:
    project = make_project(SOURCES, {"shop.item": {"source": "shop", "keys": ["id"]}})

    def path_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import sys

        for _ in batches:
            yield pa.record_batch([pa.array(sys.path)], ["entry"])

    rows = project._project.session.range(1, numPartitions=1).mapInArrow(path_of, "entry string").collect()
    entries = [row.entry for row in rows]
    assert any(entry.endswith("site-packages") for entry in entries)
    assert not [entry for entry in entries if "pyspark" in entry or "py4j" in entry]


def test_late_events_find_their_place(make_project: Callable[..., TemporaryProject]) -> None:
    project = make_project(SOURCES, {"shop.item": {"source": "shop", "keys": ["id"], "history": True}})
    folder, schema = project.landing / "shop/item", {"Op": pa.string(), **ROW}

    def land(name: str, *events: tuple[str, int, str | None, int]) -> None:
        rows = [{"Op": o, "id": i, "name": n, "ts": at(s), "seq": str(s)} for o, i, n, s in events]
        write_parquet(folder / f"{name}.parquet", rows, schema)

    land("20260101-000001000", ("I", 1, "a", 1), ("U", 1, "c", 9), ("I", 2, "x", 2), ("D", 2, None, 8))
    project.run()
    land("20260101-000002000", ("U", 1, "b", 5), ("U", 2, "y", 4), ("U", 2, "z", 8))
    project.run()
    assert {r["id"]: r["name"] for r in project.rows("shop.item")} == {1: "c"}
    versions = sorted(
        (r["id"], r["name"], int(r["_order_from"]["seq"]), r["_order_to"] and int(r["_order_to"]["seq"]))
        for r in project.rows("shop.item_history")
    )
    assert versions == [(1, "a", 1, 5), (1, "b", 5, 9), (1, "c", 9, None), (2, "x", 2, 4), (2, "y", 4, 8)]
    land("20260101-000003000", ("U", 1, "b", 5))
    (report, *_) = project.run()
    assert report.counts["duplicates"] == 1


@pytest.mark.slow
def test_the_jvm_closes_the_log_files_of_ended_runs(make_project: Callable[..., TemporaryProject]) -> None:
    project = make_project(SOURCES, {"shop.item": {"source": "shop", "keys": ["id"]}})
    java = project._project.session._jvm
    warn = java.org.apache.logging.log4j.LogManager.getLogger("a.run").warn
    opened_by_the_jvm = Path(f"/proc/{java.java.lang.ProcessHandle.current().pid()}/fd")
    first, second = (project.path / f"{name}.jvm.jsonl" for name in ("first", "second"))

    def log(file: Path) -> None:
        java.java.lang.System.setProperty("kedro_lakehouse.log", str(file))
        try:
            warn("A line.")
        finally:
            java.java.lang.System.clearProperty("kedro_lakehouse.log")

    def opened() -> set[Path]:
        return {Path(os.path.realpath(file)) for file in opened_by_the_jvm.iterdir()} & {first, second}

    log(first)
    log(second)
    assert opened() == {first, second}
    patience = time.monotonic() + 60
    while opened() and time.monotonic() < patience:
        time.sleep(0.5)
    assert opened() == set()
    log(first)
    assert [len(file.read_text(encoding="utf-8").splitlines()) for file in (first, second)] == [2, 1]
