"""A small batch is applied to Delta tables without a Spark plan, and gives the tables that Spark gives."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from harness.project import ENV
from harness.small_batches import COMMON, applied_in, event, land, rows_of, run
from harness.soak import only_in_soak

from kedro_lakehouse.errors import CommitConflictError
from kedro_lakehouse.formats.delta.log import DeltaLog
from kedro_lakehouse.names import TableName
from kedro_lakehouse.session.line import is_spark3

if TYPE_CHECKING:
    from pathlib import Path

    from harness.project import TemporaryProject

pytestmark = [
    pytest.mark.spark,
    pytest.mark.delta,
    only_in_soak,
    pytest.mark.skipif(is_spark3(), reason="Sail speaks to clients of Spark 4: `make test-delta` runs it"),
    pytest.mark.skipif(ENV is not None, reason="The tables are Delta's"),
]

TABLES: dict[str, Any] = {
    "feed.timed": COMMON
    | {
        "source": "feed",
        "order_by": ["ts", "seq"],
        "effective_time": "at",
        "columns": {"exclude": ["ts"]},
        "sort_by": ["word"],
    },
}
BY_SPARK: dict[str, Any] = {
    "shop.parted": COMMON | {"partition_by": ["day"]},
    "shop.watched": COMMON | {"properties": {"delta.enableChangeDataFeed": "true"}},
}
"""Tables that ask for something that only Spark does."""
PLACED = {
    "rows.placed": COMMON | {"source": "rows", "keys": [], "write": "append", "history": False},
}
STORED = [name for table in TABLES for name in (table, f"{table}_history", f"{table}_changes")]
STORED += ["rows.placed", "rows.placed_changes"]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TemporaryProject]:
    """The tables by the small way, by the large one, and by both in turns."""
    folder = tmp_path_factory.mktemp("delta")
    ways = {"small": [2000] * 3, "large": [0] * 3, "turns": [2000, 0, 2000]}
    return {
        way: applied_in(folder / way, TABLES | PLACED, sizes, table_format="delta")
        for way, sizes in ways.items()
    }


def entries(project: TemporaryProject, stored: str) -> list[list[dict[str, Any]]]:
    """The entries of a table's log, oldest first."""
    folder = place(project, stored) / "_delta_log"
    return [list(map(json.loads, p.read_text().splitlines())) for p in sorted(folder.glob("*.json"))]


def place(project: TemporaryProject, stored: str) -> Path:
    return project.path / "lakehouse/warehouse" / stored.replace(".", "/")


def by_spark(project: TemporaryProject, stored: str) -> list[bool]:
    """Of each commit that changed rows, whether Spark made it."""
    info = [e[0]["commitInfo"] for e in entries(project, stored) if any("add" in a for a in e)]
    return [not i["engineInfo"].startswith("kedro-lakehouse") for i in info]


@pytest.mark.parametrize("way", ["small", "turns"])
@pytest.mark.parametrize("stored", STORED)
def test_all_ways_give_the_same_rows(made: dict[str, TemporaryProject], stored: str, way: str) -> None:
    wanted = rows_of(made["large"].rows_by_spark(stored))
    assert wanted
    assert rows_of(made[way].rows_by_spark(stored)) == wanted
    assert rows_of(made[way].rows(stored)) == wanted


@pytest.mark.parametrize("stored", STORED)
def test_the_small_way_was_taken(made: dict[str, TemporaryProject], stored: str) -> None:
    assert all(by_spark(made["large"], stored))
    small = by_spark(made["small"], stored)
    if stored == "rows.placed":
        assert all(small)
    elif stored.endswith("_changes"):
        # Spark makes the table; where rows have keys, it looks for the third batch's events in earlier ones.
        assert small == [True, False, stored != "rows.placed_changes"]
    else:
        assert small == [False] * 3


@pytest.mark.parametrize("stored", [s for s in STORED if not s.endswith("_changes") and s != "rows.placed"])
def test_the_ways_took_turns(made: dict[str, TemporaryProject], stored: str) -> None:
    assert by_spark(made["turns"], stored) == [False, True, False]


@pytest.mark.parametrize("stored", STORED)
def test_what_the_log_says_of_a_file_is_so(made: dict[str, TemporaryProject], stored: str) -> None:
    folder, project = place(made["small"], stored), made["small"]
    log = DeltaLog.open(TableName.parse(stored), str(folder), {})
    assert log is not None
    names = {f["metadata"]["delta.columnMapping.physicalName"]: f["name"] for f in log.schema}
    for entry in entries(project, stored):
        if not entry[0]["commitInfo"]["engineInfo"].startswith("kedro-lakehouse"):
            continue
        for added in [a["add"] for a in entry if "add" in a and "deletionVector" not in a["add"]]:
            rows = pq.read_table(folder / added["path"], partitioning=None)
            stats = json.loads(added["stats"], parse_float=Decimal)
            assert stats["numRecords"] == rows.num_rows
            assert added["size"] == (folder / added["path"]).stat().st_size
            for name in rows.column_names:
                if isinstance(stats["nullCount"][name], int):
                    assert stats["nullCount"][name] == rows[name].null_count, names[name]
                if name in stats["minValues"] and not isinstance(stats["minValues"][name], dict):
                    ends = [stated(stats[e][name], rows[name].type) for e in ("minValues", "maxValues")]
                    held = [v for v in rows[name].to_pylist() if v is not None]
                    assert ends[0] <= min(held), names[name]
                    most = max(held)
                    if isinstance(most, dt.datetime):  # the protocol cuts bounds to milliseconds
                        most = most.replace(microsecond=most.microsecond // 1000 * 1000)
                    assert ends[1] >= most, names[name]


def stated(value: Any, kind: pa.DataType) -> Any:
    """A bound in the log as a value."""
    if pa.types.is_timestamp(kind):
        return dt.datetime.fromisoformat(value)
    if pa.types.is_floating(kind):
        return float(value)
    return dt.date.fromisoformat(value) if pa.types.is_date(kind) else value


def test_what_only_spark_can_do_is_done_by_spark(tmp_path: Path, made: dict[str, TemporaryProject]) -> None:
    project = applied_in(tmp_path / "project", BY_SPARK, [2000] * 2, table_format="delta")
    for table in BY_SPARK:
        assert all(by_spark(project, table)), table


def test_many_small_commits_leave_checkpoints(tmp_path: Path) -> None:
    project = applied_in(tmp_path / "project", {"shop.plain": COMMON}, [2000], table_format="delta")
    for number in range(10, 22):
        land(project, number, [event("U", key, number, key, word=f"{number}") for key in range(number - 8)])
        run(project, 2000, "delta")
    folder = place(project, "shop.plain")
    checkpoint = max((folder / "_delta_log").glob("*.checkpoint.parquet"))
    version = int(checkpoint.name.partition(".")[0])
    assert version >= 10
    for entry in (folder / "_delta_log").glob("*.json"):
        if int(entry.stem) < version:
            entry.unlink()
    read = project._project.session.read.format("delta").load(str(folder)).select("id", "word").collect()
    wanted = {r["id"]: r["word"] for r in project.rows("shop.plain")}
    assert dict(map(tuple, read)) == wanted
    assert [wanted[key] for key in (0, 12)] == ["21", "21"]


def test_a_table_that_was_compacted_meanwhile_is_not_changed(made: dict[str, TemporaryProject]) -> None:
    project, name = made["small"], TableName.parse("feed.timed")
    lake, state = project.format_of("feed.timed"), project.state("feed.timed")
    before = rows_of(project.rows("feed.timed"))
    found = lake.find_rows(name, state, {"id": [0, 3]}, most_bytes=2**20)
    assert len(found.places) == found.rows.num_rows == 2
    files = lake.write_files(name, state, found.rows, found.places)

    def publish() -> None:
        with lake.stage(name, state) as stage:
            stage.put(files)
            stage.expect(state.rows)
            lake._session().sql(f"OPTIMIZE delta.`{lake.path(name)}`")
            stage.publish(state.bookmark)

    with pytest.raises(CommitConflictError):
        publish()
    assert rows_of(project.rows("feed.timed")) == before
    assert not any(path.exists() for path in files.paths)
