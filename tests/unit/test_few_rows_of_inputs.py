"""Few rows of a derived table without Spark: casts, keys, and what a result changes."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from harness.catalogs import embedded_catalog
from pyspark.sql import types as T

from kedro_lakehouse.formats.base import FormatContext
from kedro_lakehouse.formats.iceberg.rows import rows_among
from kedro_lakehouse.formats.placed import positions_of
from kedro_lakehouse.ingestion.few_rows import before_casts, kind_after, values_of
from kedro_lakehouse.ingestion.few_values import few
from kedro_lakehouse.ingestion.query_shape import CastTo, Value
from kedro_lakehouse.ingestion.small_results import _compared
from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from pathlib import Path

    from kedro_lakehouse.session.catalog import MetadataCatalog

pytestmark = pytest.mark.unit

MASTER = TableName("crm", "master")
LONG, DOUBLE, TEXT = CastTo("long", fails=True), CastTo("double", fails=True), CastTo("string", fails=False)


def no_session() -> Any:
    pytest.fail("Spark is not needed")


@pytest.mark.parametrize(
    ("kind", "casts", "wanted", "before"),
    [
        (T.StringType(), [], ["a", None], ["a", None]),
        (T.IntegerType(), [LONG], [1, 2**40], [1, 2**40]),
        (T.IntegerType(), [LONG, DOUBLE], [1.0, 1.5, None], [1, None]),
        (T.LongType(), [DOUBLE], [float(2**53)], None),  # two whole numbers become this one
        (T.LongType(), [CastTo("integer", fails=True)], [1], None),
        (T.DoubleType(), [LONG], [7], None),  # 7.5 becomes 7, too
        (T.LongType(), [TEXT], ["7"], None),
        (T.DateType(), [CastTo("timestamp", fails=False)], [dt.datetime(2026, 1, 1, tzinfo=dt.UTC)], None),
    ],
)
def test_values_before_casts_are_those_that_become_the_wanted_ones(
    kind: T.DataType, casts: list[CastTo], wanted: list[Any], before: list[Any] | None
) -> None:
    assert before_casts(kind, casts, wanted) == before


def test_casts_that_lose_something_are_sparks() -> None:
    rows = pa.table({"d": [7.0, None, 11.0], "half": [7.5, 1.0, 2.0], "nan": [float("nan"), 1.0, 2.0]})
    assert values_of(rows, [Value(0, "d", (LONG,)), Value(0, "half")]) == [(7, 7.5), (None, 1.0), (11, 2.0)]
    assert values_of(rows, [Value(0, "half", (LONG,))]) is None
    assert values_of(rows, [Value(0, "nan", (LONG,))]) is None
    assert values_of(rows, [Value(0, "d", (TEXT,))]) is None
    assert kind_after(T.DoubleType(), [LONG]) == T.LongType()


def test_values_with_two_notations_are_not_plain() -> None:
    for value in (0.0, -0.0, float("nan"), float("inf"), dt.datetime(2026, 1, 1, tzinfo=dt.UTC), True, b"a"):
        assert few(no_session, [T.DoubleType()], [(value,)]).plain() is None
    plain = [(1.5,), (None,), (1.5,)]
    assert few(no_session, [T.DoubleType()], plain).plain() == [1.5, None]
    assert few(no_session, [T.DecimalType(9, 2)], [(Decimal("1.20"),)]).plain() == [Decimal("1.20")]


def test_the_places_of_rows_are_those_of_a_loop() -> None:
    pick = random.Random(5)  # noqa: S311 - the same each time
    for _ in range(50):
        size = pick.randrange(9)
        rows = [(pick.choice([1, 2, None]), pick.choice(["a", "b"])) for _ in range(size)]
        table = pa.table({"n": pa.array([r[0] for r in rows], pa.int32()), "s": [r[1] for r in rows]})
        table = table.cast(pa.schema([("n", pa.int32()), ("s", pa.string())]))
        gone = sorted(pick.sample(range(size), pick.randint(0, size)))
        among: dict[str, list[Any]] = {"n": pick.choice([[1], [None, 2], [], [2**40]])}
        if pick.random() < 0.5:
            among["s"] = ["a"]
        expected = [
            i
            for i, (n, s) in enumerate(rows)
            if i not in gone and n in among["n"] and s in among.get("s", ["a", "b"])
        ]
        assert positions_of(table, among, without=pa.array(gone, pa.int64())).to_pylist() == expected


KINDS = {"id": pa.int64(), "x": pa.float64(), "t": pa.string()}


def changes(rows: list[Any], before: list[Any]) -> Any:
    told = [[dict(zip(KINDS, row, strict=True)) for row in some] for some in (rows, before)]
    return _compared(told[0], told[1], ["id"], list(KINDS), KINDS)


def test_a_result_changes_what_differs() -> None:
    nan = float("nan")
    found = changes(
        [(1, 1.0, "same"), (2, nan, "same"), (3, 0.0, "same"), (4, 1.0, "new"), (5, None, None)],
        [(1, 1.0, "same"), (2, nan, "same"), (3, -0.0, "same"), (4, 1.0, "old"), (6, 2.0, "gone")],
    )
    assert found.changes.to_pylist() == [
        {"id": 4, "x": 1.0, "t": "new", "_op": "upsert"},
        {"id": 5, "x": None, "t": None, "_op": "upsert"},
        {"id": 6, "x": None, "t": None, "_op": "delete"},
    ]
    counts = found.counts
    assert (counts.landed, counts.rows, counts.upserts, counts.deletes, counts.in_scope) == (5, 5, 2, 1, 5)


@pytest.mark.parametrize("rows", [[(None, 1.0, "a")], [(1, 1.0, "a"), (1, 2.0, "b")]])
def test_a_result_with_rows_to_reject_is_sparks(rows: list[Any]) -> None:
    assert changes(rows, []) is None


@pytest.fixture
def catalog(tmp_path: Path) -> MetadataCatalog:
    return embedded_catalog(tmp_path, "crm")


def test_few_rows_of_a_snapshot_of_iceberg_are_those_of_a_whole_scan(catalog: MetadataCatalog) -> None:
    schema = pa.schema([("id", pa.int64()), ("name", pa.string()), ("more", pa.float64())])
    table = catalog.catalog.create_table("crm.master", schema=schema)
    for start in (0, 10, 20):
        rows = [
            {"id": n, "name": f"n{n % 7}" if n % 7 else None, "more": n / 2} for n in range(start, start + 10)
        ]
        table.append(pa.Table.from_pylist(rows, schema))
    table.delete("id in (3, 14)")
    snapshots = [one.snapshot_id for one in table.snapshots()]
    for snapshot in snapshots:
        whole = table.scan(snapshot_id=snapshot).to_arrow().to_pylist()
        for among in (
            {"id": [3, 14, 25, 99]},
            {"name": ["n1", None]},
            {"id": []},
            {"id": [3], "name": ["n3"]},
        ):
            found = rows_among(table, snapshot, among, ["more", "id"], most_bytes=2**20)
            assert found is not None
            assert found.column_names == ["more", "id"]
            wanted = [(r["more"], r["id"]) for r in whole if all(r[c] in v for c, v in among.items())]
            assert sorted(tuple(r.values()) for r in found.to_pylist()) == sorted(wanted)
    assert rows_among(table, snapshots[0], {"id": [1]}, ["id"], most_bytes=10) is None
    assert rows_among(table, 12345, {"id": [1]}, ["id"], most_bytes=2**20) is None


def test_few_rows_of_a_version_of_delta_are_those_of_a_whole_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deltalake = pytest.importorskip("deltalake")
    # Our own tables have deletion vectors, which this writer cannot declare.
    monkeypatch.setattr("kedro_lakehouse.formats.delta.rows.may_change_by_files", lambda _: True)
    from kedro_lakehouse.formats.delta.format import DeltaFormat

    place = tmp_path / "warehouse/crm/master"
    for start in (0, 10):
        rows = pa.table({"id": list(range(start, start + 10)), "name": [f"n{n % 3}" for n in range(10)]})
        deltalake.write_deltalake(str(place), rows, mode="append")
    deltalake.DeltaTable(str(place)).delete("id = 13")
    lake = DeltaFormat(
        FormatContext(
            session=pytest.fail,
            catalog=None,
            lakehouse=str(tmp_path),
            run_id="",
            correlation_id="",  # type: ignore[arg-type]
        )
    )
    for version, ids in ((0, [3]), (1, [3, 13]), (2, [3])):
        found = lake.rows_among(MASTER, version, {"id": [3, 13]}, ["id"], most_bytes=2**20)
        assert found is not None
        assert sorted(found["id"].to_pylist()) == ids
    assert lake.rows_among(MASTER, 7, {"id": [3]}, ["id"], most_bytes=2**20) is None
