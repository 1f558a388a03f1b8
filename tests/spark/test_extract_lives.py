"""What extracts tell of their keys, against a plain walk over one extract after the other."""

from __future__ import annotations

import datetime as dt
import random
from typing import TYPE_CHECKING, Any

import pytest
from harness.project import TemporaryProject
from harness.soak import only_in_soak
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.contract import TableContract
from kedro_lakehouse.changes.extract import UNTIL, in_each_extract, renumber_extracts
from kedro_lakehouse.changes.guard_counts import (
    count_changes,
    count_doubled_keys,
    count_in_scope,
    count_rows,
)
from kedro_lakehouse.changes.snapshot_diff import STALE, rows_before, snapshot_diff
from kedro_lakehouse.project import Project

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

EXTRACTS, KEYS = 6, 150
ROW = "id int, region string, v string, at timestamp"
Row = tuple[int, str | None, str | None, dt.datetime | None]
Told = list[tuple[Any, ...]]


def day(number: int) -> dt.datetime:
    return dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(days=number)


def some_row(dice: random.Random, key: int) -> Row:
    at = day(dice.randint(-2, EXTRACTS + 1)) if dice.random() < 0.6 else None
    return key, dice.choice(["n", "s", None]), dice.choice(["a", "b", None]), at


def some_extracts(dice: random.Random) -> tuple[dict[int, Row], list[dict[int, Row | None]]]:
    """Rows that stand before, and extracts: a row or (quarantined) None of each key that is present."""
    state = {k: some_row(dice, k) for k in range(KEYS) if dice.random() < 0.5}
    extracts: list[dict[int, Row | None]] = []
    held: dict[int, Row] = dict(state)
    for _ in range(EXTRACTS):
        extract: dict[int, Row | None] = {}
        for key in range(KEYS):
            if dice.random() < 0.3:
                continue
            row = held[key] if key in held and dice.random() < 0.5 else some_row(dice, key)
            extract[key] = None if dice.random() < 0.1 else row
            held[key] = row
        # Now and then an extract speaks of one part only.
        part = dice.choice(["n", "s", "", ""])
        extracts.append({k: r for k, r in extract.items() if not part or r is None or r[1] == part})
    return state, extracts


class Walk:
    """One extract after the other, one key after the other, as section 9 words it."""

    def __init__(self, contract: TableContract, state: dict[int, Row]) -> None:
        self.contract = contract
        self.rows = dict(state)
        self.stamps = {k: r[3] or day(0) for k, r in state.items()}
        self.ended: dict[int, int] = {}
        self.told: Told = []
        self.in_scope: dict[int, int] = {}

    def take(self, number: int, extract: dict[int, Row | None]) -> None:
        parts = {r[1] for r in extract.values() if r is not None}
        scoped = [k for k, r in self.rows.items() if not self.contract.delete_scope or r[1] in parts]
        self.in_scope[number] = len(scoped)
        if self.contract.hard_deletes != "ignore":
            for key in set(scoped) - set(extract):
                self.told.append((key, "delete", number, None, None, None))
                del self.rows[key]
                self.ended[key] = number
        for key, row in extract.items():
            if row is not None and row != self.rows.get(key):
                self._apply(number, key, row)

    def _apply(self, number: int, key: int, row: Row) -> None:
        stamp, lives = row[3] or day(number), key in self.rows
        if self.contract.updated_at and lives and stamp <= self.stamps[key]:
            if row[:3] != self.rows[key][:3]:
                self.told.append((key, STALE, number, None, None, None))
            return
        self.told.append((key, "upsert", number, row, not lives, None if lives else self.ended.get(key)))
        self.rows[key], self.stamps[key] = row, stamp


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> SparkSession:
    project = TemporaryProject.make(tmp_path_factory.mktemp("lives") / "project", {}, {})
    return Project.load(str(project.path / "conf"), None).session


def frames(
    session: SparkSession, state: dict[int, Row], extracts: list[dict[int, Row | None]]
) -> tuple[DataFrame, DataFrame, DataFrame]:
    landed = [
        (n, [] if row else ["a_check"], *(row or (key, None, None, None)))
        for n, extract in enumerate(extracts, start=1)
        for key, row in extract.items()
    ]
    rows = session.createDataFrame(landed, f"_extract int, _reasons array<string>, {ROW}")
    rows = rows.withColumn("__valid_from", F.col("at"))
    order = "_order struct<extract_time: timestamp, extract_name: string>"
    times = session.createDataFrame(
        [(n, (day(n), f"{n}.csv")) for n in range(1, EXTRACTS + 1)], f"_extract int, {order}"
    )
    before = session.createDataFrame([(*r, (day(0), "0.csv")) for r in state.values()], f"{ROW}, {order}")
    return rows, times, before


@pytest.mark.parametrize(
    ("updated_at", "delete_scope", "hard_deletes"),
    [
        (None, (), "close"),
        ("at", ("region",), "ignore"),
        pytest.param("at", ("region",), "close", marks=only_in_soak),
        pytest.param(None, ("region",), "ignore", marks=only_in_soak),
        pytest.param("at", (), "ignore", marks=only_in_soak),
        pytest.param("at", (), "close", marks=only_in_soak),
        pytest.param(None, ("region",), "close", marks=only_in_soak),
        pytest.param(None, (), "ignore", marks=only_in_soak),
    ],
)
def test_one_fold_tells_what_a_walk_over_the_extracts_tells(
    session: SparkSession, updated_at: str | None, delete_scope: tuple[str, ...], hard_deletes: Any
) -> None:
    contract = TableContract(
        table="x.y", keys=("id",), updated_at=updated_at, delete_scope=delete_scope, hard_deletes=hard_deletes
    )
    state, extracts = some_extracts(random.Random(f"{updated_at} {delete_scope} {hard_deletes}"))  # noqa: S311
    walk = Walk(contract, state)
    for number, extract in enumerate(extracts, start=1):
        walk.take(number, extract)
    rows, times, before = frames(session, state, extracts)
    stood = rows_before(before, rows, contract)
    told = snapshot_diff(rows, stood, contract, extracts=times, count=EXTRACTS).persist()

    def row_of(row: Any) -> Row | None:
        return row and tuple(_utc(row[c]) for c in ("region", "v", "at"))

    found = [
        (r["id"], r["_op"], r["_extract"], row_of(r["__row"]), r["__returns"], r["__ended"])
        for r in told.collect()
    ]
    expected = [(*t[:3], t[3] and t[3][1:], *t[4:]) for t in walk.told]
    assert sorted(found, key=repr) == sorted(expected, key=repr)
    counted = count_in_scope(rows, told, stood, contract, times).collect()
    assert {r["_extract"]: r["in_scope"] for r in counted} == {
        n: c for n, c in walk.in_scope.items() if not delete_scope or any(extracts[n - 1].values())
    }
    deletes = {r["_extract"]: r["deletes"] for r in count_changes(told).collect() if r["deletes"]}
    assert deletes == {n: c for n in walk.in_scope if (c := sum(t[1:3] == ("delete", n) for t in walk.told))}
    told.unpersist()


def in_runs(rows: DataFrame) -> DataFrame:
    """The same rows, equal ones of extracts that follow each other as one."""
    told: dict[tuple[Any, ...], list[int]] = {}
    for number, reasons, *row in rows.collect():
        assert not reasons
        told.setdefault(tuple(row), []).append(number)
    runs = []
    for row, numbers in told.items():
        firsts = [n for n in sorted(numbers) if n - 1 not in numbers]
        untils = [n for n in sorted(numbers) if n + 1 not in numbers]
        runs += [(first, [], *row, until) for first, until in zip(firsts, untils, strict=True)]
    return rows.sparkSession.createDataFrame(
        runs, T.StructType([*rows.schema.fields, T.StructField(UNTIL, T.IntegerType())])
    )


@pytest.mark.parametrize(
    ("delete_scope", "hard_deletes"),
    [
        (("region",), "close"),
        pytest.param((), "ignore", marks=only_in_soak),
        pytest.param((), "close", marks=only_in_soak),
        pytest.param(("region",), "ignore", marks=only_in_soak),
    ],
)
def test_runs_of_equal_rows_tell_what_each_row_tells(
    session: SparkSession, delete_scope: tuple[str, ...], hard_deletes: Any
) -> None:
    contract = TableContract(
        table="x.y", keys=("id",), delete_scope=delete_scope, hard_deletes=hard_deletes, valid_from="at"
    )
    state, extracts = some_extracts(random.Random(f"{delete_scope} {hard_deletes}"))  # noqa: S311
    each, times, before = frames(session, state, extracts)
    each = each.where(F.size("_reasons") == 0).persist()
    runs = in_runs(each).persist()
    assert runs.count() < each.count()
    stood = rows_before(before, each, contract)
    for accepted in (range(1, EXTRACTS + 1), [1, 3, 4, 6], [2]):
        few = times.where(F.col("_extract") <= len(accepted))
        found = []
        for rows in (each, runs):
            kept = renumber_extracts(rows, accepted)
            told = snapshot_diff(kept, stood, contract, extracts=few, count=len(accepted)).persist()
            found.append(
                {
                    "told": sorted(told.collect(), key=repr),
                    "rows": sorted(count_rows(kept, contract).collect()),
                    "doubled": count_doubled_keys(kept, contract).collect(),
                    "in scope": sorted(count_in_scope(kept, told, stood, contract, few).collect()),
                }
            )
            told.unpersist()
        assert found[0] == found[1]
        assert found[0]["told"]
        assert not found[0]["doubled"]
    again = (
        each.where("id = 7").limit(1).withColumn("v", F.lit("another")).withColumn(UNTIL, F.col("_extract"))
    )
    assert in_each_extract(runs).count() == each.count()
    assert count_doubled_keys(runs.unionByName(again), contract).collect()
    for frame in (each, runs):
        frame.unpersist()


def _utc(value: Any) -> Any:
    return value.astimezone(dt.UTC) if isinstance(value, dt.datetime) else value


def test_structs_of_rows_before_take_on_the_fields_of_the_batch(session: SparkSession) -> None:
    stored = "1 AS id, named_struct('zip', 1) AS place, array(named_struct('n', 1)) AS parts"
    place, parts = "named_struct('zip', 2L, 'city', 'b')", "array(named_struct('n', 1, 'm', 'x'))"
    order = "named_struct('extract_time', timestamp'2026-01-01', 'extract_name', '0.csv') AS _order"
    before = session.sql(f"SELECT {stored}, {order}")
    told = "1 AS _extract, cast(array() AS array<string>) AS _reasons"
    rows = session.sql(f"SELECT 1 AS id, {place} AS place, {parts} AS parts, {told}")
    contract = TableContract(table="x.y", keys=("id",))
    stood = rows_before(before, rows, contract)
    assert stood.schema["place"].dataType.simpleString() == "struct<zip:bigint,city:string>"
    assert stood.schema["parts"].dataType.simpleString() == "array<struct<n:int,m:string>>"
    (row,) = stood.collect()
    assert row["place"].asDict() == {"zip": 1, "city": None}
    assert [part.asDict() for part in row["parts"]] == [{"n": 1, "m": None}]
    order = "_extract int, _order struct<extract_time: timestamp, extract_name: string>"
    times = session.createDataFrame([(1, (day(1), "1.csv"))], order)
    (change,) = snapshot_diff(rows, stood, contract, extracts=times, count=1).collect()
    assert change["_op"] == "upsert"
