"""A small batch is applied without a Spark plan, and gives the tables that Spark gives."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from harness.project import ENV, environment
from harness.small_batches import COMMON, applied_in, rounds, rows_of
from harness.soak import only_in_soak
from pyiceberg.conversions import from_bytes
from pyiceberg.types import ListType, MapType

from kedro_lakehouse.names import TableName
from kedro_lakehouse.session.line import is_spark3

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.project import TemporaryProject

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.skipif(is_spark3(), reason="Sail speaks to clients of Spark 4: `make test-slow` runs it"),
    pytest.mark.skipif(ENV is not None, reason="Hudi has no small way"),
]

KEDRO = str(Path(sys.executable).with_name("kedro"))
TABLES: dict[str, Any] = {
    "shop.plain": COMMON,
    "shop.filled": COMMON | {"keys": ["word", "id"], "ignore_null": ["amount", "n"]},
    "shop.tombs": COMMON
    | {
        "hard_deletes": "tombstone",
        "partition_by": ["truncate(10, id)"],
        "properties": {"write.parquet.compression-codec": "gzip"},
    },
    "shop.tracked": COMMON
    | {"history": {"track": {"include": ["word"]}}, "partition_by": ["word"], "sort_by": ["amount"]},
    "shop.by_day": COMMON | {"partition_by": ["days(at)"]},
    "shop.by_month": COMMON | {"partition_by": ["months(day)", "bucket(4, id)"], "sort_by": ["word", "id"]},
    "feed.timed": COMMON
    | {"source": "feed", "order_by": ["ts", "seq"], "effective_time": "at", "columns": {"exclude": ["ts"]}},
}
KEYLESS: dict[str, Any] = {
    "rows.placed": COMMON | {"source": "rows", "keys": [], "write": "append", "history": False}
}
HEART = ("shop.plain", "shop.tombs", "shop.by_month")
"""The tables that are looked at each time; a soak looks at the others, and at turns."""
LARGE_ONLY: dict[str, Any] = {
    "shop.v3": COMMON | {"properties": {"format-version": "3"}},
    "shop.cow": COMMON | {"properties": {"write.merge.mode": "copy-on-write"}},
    "shop.blooming": COMMON | {"properties": {"write.parquet.bloom-filter-enabled.column.id": "true"}},
    "shop.strict": COMMON
    | {
        "expectations": [{"type": "expect_column_values_to_not_be_null", "column": "id", "severity": "block"}]
    },
}
"""Tables that ask for something that only the large way does."""


def applied(path: Path, tables: Sequence[str], sizes: Sequence[int]) -> TemporaryProject:
    """A project to which the same files were applied, a run each, with these sizes of a small batch."""
    declared = {name: (TABLES | LARGE_ONLY | KEYLESS)[name] for name in tables}
    return applied_in(path, declared, sizes, table_format="iceberg")


@pytest.fixture(scope="module")
def heart(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TemporaryProject]:
    """Some tables, by the small way and by the large one."""
    folder = tmp_path_factory.mktemp("heart")
    return {way: applied(folder / way, HEART, [size] * 3) for way, size in (("small", 2000), ("large", 0))}


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TemporaryProject]:
    """The other tables by both ways, and all of them by both in turns."""
    folder, others = tmp_path_factory.mktemp("options"), [t for t in TABLES if t not in HEART]
    return {
        "small": applied(folder / "small", [*others, *KEYLESS], [2000] * 3),
        "large": applied(folder / "large", [*others, *KEYLESS], [0] * 3),
        "turns": applied(folder / "turns", list(TABLES), [2000, 0, 2000]),
    }


@pytest.fixture
def projects(request: pytest.FixtureRequest, stored: str) -> dict[str, TemporaryProject]:
    """The projects that have a stored table."""
    found: dict[str, TemporaryProject] = request.getfixturevalue(group_of(stored))
    return found


def group_of(stored: str) -> str:
    """The fixture that has a stored table."""
    return "heart" if stored.removesuffix("_history").removesuffix("_changes") in HEART else "options"


def made_by_spark(project: TemporaryProject, stored: str) -> list[bool]:
    """Of each commit of a table that added or deleted files, whether Spark made it."""
    found = project._project.catalog.find(TableName.parse(stored))
    assert found is not None
    known = [s.summary for s in found.metadata.snapshots if s.summary]
    summaries = [(summary.additional_properties, summary.operation.value) for summary in known]
    changes = [
        s for s, kind in summaries if kind != "replace" and s.get("changed-partition-count", "0") != "0"
    ]
    return ["spark.app.id" in s for s in changes]


STORED = [
    pytest.param(name, marks=[only_in_soak] if group_of(name) == "options" else [])
    for table in TABLES
    for name in (table, f"{table}_history", f"{table}_changes")
]


@pytest.mark.parametrize("stored", STORED)
def test_both_ways_give_the_same_rows(projects: dict[str, TemporaryProject], stored: str) -> None:
    wanted = rows_of(projects["large"].rows(stored))
    assert wanted
    assert rows_of(projects["small"].rows(stored)) == wanted


@only_in_soak
@pytest.mark.parametrize("table", TABLES)
@pytest.mark.parametrize("suffix", ["", "_history"])
def test_the_ways_may_take_turns(
    options: dict[str, TemporaryProject], heart: dict[str, TemporaryProject], table: str, suffix: str
) -> None:
    large = (heart if table in HEART else options)["large"]
    assert rows_of(options["turns"].rows(table + suffix)) == rows_of(large.rows(table + suffix))


@pytest.mark.parametrize("stored", STORED)
def test_spark_reads_what_pyiceberg_reads(projects: dict[str, TemporaryProject], stored: str) -> None:
    project = projects["small"]
    frame = project.format_of(stored).read(TableName.parse(stored))
    read = pa.Table.from_batches(frame._collect_as_arrow()).to_pylist()
    assert rows_of(read) == rows_of(project.rows(stored))


@pytest.mark.parametrize("stored", STORED)
def test_the_small_way_was_taken(projects: dict[str, TemporaryProject], stored: str) -> None:
    small, large = (made_by_spark(projects[way], stored) for way in ("small", "large"))
    assert len(small) <= len(large)
    assert all(large)
    if stored.endswith("_changes"):
        # Spark makes the table, and looks in it for the events of the third batch that it holds already.
        assert small == [True, False, *[True] * (len(large) - 2)]
    else:
        assert small == [False] * len(rounds())


@only_in_soak
@pytest.mark.parametrize("stored", ["rows.placed", "rows.placed_changes"])
def test_a_table_without_keys_gets_the_same_rows(options: dict[str, TemporaryProject], stored: str) -> None:
    wanted = rows_of(options["large"].rows(stored))
    assert len(wanted) > 20
    assert rows_of(options["small"].rows(stored)) == wanted


@only_in_soak
def test_without_keys_only_the_change_log_goes_the_small_way(options: dict[str, TemporaryProject]) -> None:
    # Each row counts, so none is looked for in earlier batches.
    assert made_by_spark(options["small"], "rows.placed_changes") == [True, False, False]
    assert all(made_by_spark(options["small"], "rows.placed"))


@only_in_soak
def test_what_only_spark_can_do_is_done_by_spark(tmp_path: Path, heart: dict[str, TemporaryProject]) -> None:
    project = applied(tmp_path / "project", list(LARGE_ONLY), [2000] * 3)
    wanted = rows_of(heart["large"].rows("shop.plain"))
    for table in LARGE_ONLY:
        assert all(made_by_spark(project, table)), table
        assert rows_of(project.rows(table)) == wanted, table


def test_a_run_that_finds_nothing_new_starts_no_spark(heart: dict[str, TemporaryProject]) -> None:
    # A Spark that is not there cannot be started.
    nowhere = environment() | {"SPARK_HOME": "/nowhere"}
    ended = subprocess.run(
        [KEDRO, "run", "--pipelines=ingestion,cdc_merge,scd2"],
        cwd=heart["small"].path, env=nowhere, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "had nothing new" in ended.stdout


@pytest.mark.parametrize("group", ["heart", pytest.param("options", marks=only_in_soak)])
def test_every_commit_says_the_same_counts(request: pytest.FixtureRequest, group: str) -> None:
    def counts(project: TemporaryProject) -> list[Any]:
        known = (
            "events_in", "applied", "quarantined", "duplicates", "sequence_ties", "too_late", "min_order",
            "max_order", "inserted", "updated", "deleted", "opened", "closed", "rewritten", "removed", "late",
        )  # fmt: skip
        rows = project.ops("batches")
        return sorted(
            repr([r["table"], r["stage"], r["batch"], r["stale_ignored"], *[r[c] for c in known]])
            for r in rows
        )

    made = request.getfixturevalue(group)
    assert counts(made["small"]) == counts(made["large"])


@pytest.mark.parametrize("stored", STORED)
def test_bounds_are_those_of_each_files_rows(projects: dict[str, TemporaryProject], stored: str) -> None:
    found = projects["small"]._project.catalog.find(TableName.parse(stored))
    assert found is not None
    # NaN and -0.0 have rules of their own, and bounds of texts are cut.
    left_out = {"ratio", "part", "raw", "word", "pair.b", "_position.file", "odd name"}
    schema = found.schema()
    simple = [i for i in schema.field_ids if schema.find_type(i).is_primitive]
    names = {i: schema.find_column_name(i) or "" for i in simple}
    unbounded = tuple(f"{f.name}." for f in schema.fields if isinstance(f.field_type, ListType | MapType))
    fields = {i: n for i, n in names.items() if n not in left_out and not n.startswith(unbounded)}
    seen = set()
    for file in (task.file for task in found.scan().plan_files()):
        path = file.file_path.removeprefix("file://").removeprefix("file:")
        there = pq.read_schema(path).names
        assert ("odd_x20name" in there) == ("odd name" in names.values())
        for number, name in fields.items():
            if name.partition(".")[0] not in there:
                continue
            low, high = ((bounds or {}).get(number) for bounds in (file.lower_bounds, file.upper_bounds))
            stated = [
                None if end is None else from_bytes(schema.find_type(number), end) for end in (low, high)
            ]
            quoted = ".".join(f'"{part}"' for part in name.split("."))
            query = f"SELECT min({quoted}), max({quoted}), count(*) FROM '{path}'"
            *ends, rows = duckdb.sql(query).fetchall()[0]
            assert rows == file.record_count
            assert list(map(_as_number, ends)) == list(map(_as_number, stated)), name
            seen |= {name} if stated != [None, None] else set()
    assert {"id", *[n for n in names.values() if n.endswith(".seq")]} <= seen


def _as_number(value: Any) -> Any:
    """Times and dates as Iceberg counts them: since 1970, in microseconds or days."""
    if isinstance(value, dt.datetime):
        zoned = value if value.tzinfo else value.replace(tzinfo=dt.UTC)
        return (zoned - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(microseconds=1)
    if isinstance(value, dt.date):
        return (value - dt.date(1970, 1, 1)).days
    return value
