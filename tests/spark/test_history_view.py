"""Views of histories and as-of joins on Spark: the same answers as a plain model, and no needless commit."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from harness.project import TemporaryProject, write_parquet

from kedro_lakehouse.changes.asof import join_as_of
from kedro_lakehouse.errors import MissingColumnError, UnsupportedError
from kedro_lakehouse.project import Project
from kedro_lakehouse.query.answer import run_query

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

pytestmark = pytest.mark.spark

SOURCES = {
    "shop": {
        "type": "dms", "path": "${globals:landing}/shop", "sequence_column": "seq", "timestamp_column": "ts",
    }
}  # fmt: skip
PLAIN = {"name": "item_versions", "is_current": "live", "columns": {"name": "label"}}
ROW = {"id": pa.int64(), "name": pa.string(), "ts": pa.timestamp("us"), "seq": pa.string()}
BY_DAY = {
    "name": "item_by_day",
    "surrogate_key": "sk",
    "grain": "date",
    "end": "inclusive",
    "open_end": "none",
}


def declared(view: dict[str, Any]) -> dict[str, Any]:
    history = {"view": {"surrogate_key": "sk"} | view}
    return {"shop.item": {"source": "shop", "keys": ["id"], "history": history}}


def at(day: int, hour: int = 0, **more: int) -> dt.datetime:
    return dt.datetime(2026, 1, day, hour, **more)  # noqa: DTZ001 - zone-less, as DMS writes it


@dataclass
class Views:
    """The project after its last run; what its views said, by Spark and by a query without it."""

    project: TemporaryProject
    spark: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    query: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    versions: list[int] = field(default_factory=list)

    def look(self, view: str) -> None:
        loaded = Project.load(str(self.project.path / "conf"), None)
        rows = loaded.session.table(f"lake.shop.{view}").orderBy("id", "effective_from").collect()
        self.spark[view] = [r.asDict() for r in rows]
        tables = {f"shop.{view}": next(iter(loaded.declarations.tables.items()))}
        answer = run_query(loaded.catalog, f"from shop.{view} order by id, effective_from", views=tables)
        self.query[view] = [dict(zip(answer.columns, r, strict=True)) for r in answer.rows]

    def count(self, view: str) -> None:
        loaded = Project.load(str(self.project.path / "conf"), None)
        jvm: Any = loaded.session._jvm
        catalog = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergCatalog(
            loaded.session._jsparkSession, "lake"
        )
        name = jvm.org.apache.iceberg.catalog.TableIdentifier.parse(f"shop.{view}")
        self.versions.append(catalog.loadView(name).currentVersion().versionId())


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> Views:
    project = TemporaryProject.make(tmp_path_factory.mktemp("view") / "project", SOURCES, declared(PLAIN))
    found, folder = Views(project), project.landing / "shop/item"
    rows = [{"id": i, "name": f"n{i}", "ts": at(1), "seq": None} for i in (1, 2)]
    write_parquet(folder / "LOAD00000001.parquet", rows, ROW)
    changes = [
        {"Op": "U", "id": 1, "name": "morning", "ts": at(3, 8), "seq": "10"},
        {"Op": "U", "id": 1, "name": "evening", "ts": at(3, 18), "seq": "11"},
        {"Op": "D", "id": 2, "name": None, "ts": at(4, 9), "seq": "12"},
    ]
    write_parquet(folder / "20260104-000010000.parquet", changes, {"Op": pa.string(), **ROW})
    project.run()
    found.count("item_versions")
    project.run()
    found.count("item_versions")
    found.look("item_versions")
    project.declare(SOURCES, declared({**PLAIN, "end": "inclusive", "open_end": "2100-01-01"}))
    project.run()
    found.count("item_versions")
    found.spark["before"], found.query["before"] = found.spark["item_versions"], found.query["item_versions"]
    found.look("item_versions")
    project.declare(SOURCES, declared(BY_DAY))
    project.run()
    found.look("item_by_day")
    return found


def test_a_view_is_remade_only_where_its_declaration_changed(views: Views) -> None:
    first, same, changed = views.versions
    assert first == same < changed


def test_a_query_without_spark_answers_as_the_view_does(views: Views) -> None:
    for view, rows in views.spark.items():
        assert views.query[view] == rows, view


def test_a_half_open_view_has_an_open_end_of_its_own(views: Views) -> None:
    found = [
        (r["id"], r["label"], r["effective_from"], r["effective_to"], r["live"])
        for r in views.spark["before"]
    ]
    assert found == [
        (1, "n1", at(1), at(3, 8), False), (1, "morning", at(3, 8), at(3, 18), False),
        (1, "evening", at(3, 18), dt.datetime(9999, 12, 31), True),  # noqa: DTZ001
        (2, "n2", at(1), at(4, 9), False),
    ]  # fmt: skip
    assert list(views.spark["before"][0]) == ["sk", "id", "label", "effective_from", "effective_to", "live"]


def test_an_inclusive_end_is_a_microsecond_earlier(views: Views) -> None:
    found = [(r["label"], r["effective_to"]) for r in views.spark["item_versions"]]
    last = {"minute": 59, "second": 59, "microsecond": 999999}
    assert found == [
        ("n1", at(3, 7, **last)), ("morning", at(3, 17, **last)),
        ("evening", dt.datetime(2100, 1, 1)), ("n2", at(4, 8, **last)),  # noqa: DTZ001
    ]  # fmt: skip


def test_by_days_the_last_version_of_a_day_stands_for_it(views: Views) -> None:
    found = [(r["id"], r["name"], r["effective_from"], r["effective_to"]) for r in views.spark["item_by_day"]]
    assert found == [
        (1, "n1", dt.date(2026, 1, 1), dt.date(2026, 1, 2)), (1, "evening", dt.date(2026, 1, 3), None),
        (2, "n2", dt.date(2026, 1, 1), dt.date(2026, 1, 3)),
    ]  # fmt: skip


def frames(views: Views) -> tuple[DataFrame, DataFrame]:
    """Facts of two key columns, and versions whose times do not follow their orders."""
    session = Project.load(str(views.project.path / "conf"), None).session
    versions = [
        ("a", 1, (1,), at(1), at(9), "early", False), ("a", 1, (2,), at(5), at(9), "overlaps", False),
        ("a", 1, (3,), at(9), at(9), "no time", False), ("a", 1, (4,), at(9), None, "open", False),
        ("a", 2, (1,), at(1), at(2), "alive", False), ("a", 2, (2,), at(2), None, "gone", True),
    ]  # fmt: skip
    history = session.createDataFrame(
        versions, "k1 string, k2 bigint, _order_from struct<seq: int>, effective_from timestamp_ntz, "
        "effective_to timestamp_ntz, label string, _tombstone boolean",
    )  # fmt: skip
    times = [("a", 1, d) for d in (at(1), at(4), at(5), at(8), at(9), at(9), None)]
    others = [("a", 2, at(1)), ("a", 2, at(2)), ("b", 1, at(4)), (None, 1, at(4))]
    return session.createDataFrame(times + others, "part string, k2 int, seen timestamp_ntz"), history


def test_each_fact_meets_the_version_in_effect_at_its_time_once(views: Views) -> None:
    facts, history = frames(views)
    on = {"part": "k1", "k2": "k2"}
    left = join_as_of(facts, history, on=on, time="seen", columns={"label": "found"})
    assert left.columns == ["part", "k2", "seen", "found"]
    rows = [tuple(r) for r in left.collect()]
    expected: list[tuple[Any, ...]] = [
        ("a", 1, at(1), "early"), ("a", 1, at(4), "early"), ("a", 1, at(5), "overlaps"),
        ("a", 1, at(8), "overlaps"), ("a", 1, at(9), "open"), ("a", 1, at(9), "open"), ("a", 1, None, None),
        ("a", 2, at(1), "alive"), ("a", 2, at(2), None), ("b", 1, at(4), None), (None, 1, at(4), None),
    ]  # fmt: skip
    assert sorted(rows, key=str) == sorted(expected, key=str)
    inner = join_as_of(facts, history, on=on, time="seen", columns={"label": "found"}, how="inner")
    assert sorted(map(tuple, inner.collect()), key=str) == sorted([r for r in expected if r[3]], key=str)


def test_an_as_of_join_refuses_unknown_and_doubled_columns(views: Views) -> None:
    facts, history = frames(views)
    with pytest.raises(MissingColumnError, match="lable"):
        join_as_of(facts, history, on={"part": "k1"}, time="seen", columns=["lable"])
    with pytest.raises(UnsupportedError, match="k2"):
        join_as_of(facts, history, on={"part": "k1"}, time="seen", columns=["k2"])
