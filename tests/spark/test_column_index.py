"""The column index over a lake: what is indexed, what of it is embedded again, what a failing table does."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from harness.project import TemporaryProject, write_parquet
from pyspark.sql.pandas.types import from_arrow_schema

from kedro_lakehouse.column_search import lake_index as column_index
from kedro_lakehouse.column_search.project_search import distinct_values, open_search
from kedro_lakehouse.column_search.sketch import sketch_batches, sketch_frame
from kedro_lakehouse.column_search.survey import lake_tables
from kedro_lakehouse.names import TableName

pytestmark = pytest.mark.spark

SCHEMA = {"id": pa.int64(), "town": pa.string(), "nick": pa.string(), "change_seq": pa.int64()}
KEPT = ["id", "nick", "town"]


def land(project: TemporaryProject, table: str, name: str, rows: list[tuple[Any, ...]]) -> None:
    schema = SCHEMA if name.startswith("LOAD") else {"Op": pa.string(), **SCHEMA}
    write_parquet(project.landing / "shop" / table / f"{name}.parquet",
                  [dict(zip(schema, row, strict=True)) for row in rows], schema)  # fmt: skip


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> TemporaryProject:
    """Two tables and one that the project does not own; indexed with the test embedder."""
    folder = tmp_path_factory.mktemp("columns") / "project"
    source = {"type": "dms", "path": str(folder / "landing/shop"), "file_format": "parquet",
              "sequence_column": "change_seq"}  # fmt: skip
    tables = {
        "shop.customer": {"source": "shop", "keys": ["id"], "personal": ["nick"], "tags": ["master"]},
        "shop.broken": {"source": "shop", "keys": ["id"]},
    }
    made = TemporaryProject.make(folder, {"shop": source}, tables)
    made.write("parameters", {"column_index": {"models": ["hash"]}}, env="local")
    land(made, "customer", "LOAD00000001", [(1, "Bonn", "canary1", 1), (2, "Kiel", "canary2", 2)])
    broken = made.landing / "shop/broken/LOAD00000001.parquet"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"PAR1 damaged")
    return made


def signatures(project: TemporaryProject) -> dict[str, dict[str, Any]]:
    return {row["column_id"]: row for row in project.rows("ops.column_signatures")}


def test_current_columns_are_indexed_although_another_table_failed(project: TemporaryProject) -> None:
    failed = project.failures()
    assert list(failed) == ["shop.broken"]
    found = signatures(project)
    assert sorted(found) == [f"shop.customer.{column}" for column in KEPT]
    town, nick = found["shop.customer.town"], found["shop.customer.nick"]
    assert (town["rows"], town["distinct"], town["tags"]) == (2, 2, ["master"])
    assert [entry["value"] for entry in town["frequent"]] == ["Bonn", "Kiel"]
    assert nick["personal"]
    assert "canary" not in str(nick)


def test_a_second_run_changes_nothing(project: TemporaryProject) -> None:
    before = {row["version"] for row in signatures(project).values()}
    assert project.run("column_index") == []
    assert {row["version"] for row in signatures(project).values()} == before


def test_only_a_changed_column_is_embedded_again_also_where_spark_reads_the_table(
    project: TemporaryProject, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(column_index, "SMALL_TABLE", -1)
    land(project, "customer", "20260101-000000000", [("U", 2, "Trier", "canary2", 3)])
    project.failures()
    report = next(r for r in project._project.reports if r.stage == "column_index")
    assert (report.counts["events_in"], report.counts["applied"], report.counts["updated"]) == (3, 1, 3)
    history = [r for r in project.rows("ops.column_signatures_history") if r["column"] == "town"]
    assert sorted(row["is_current"] for row in history) == [False, True]


def test_tables_of_others_are_indexed_and_dropped_ones_are_not(project: TemporaryProject) -> None:
    catalog = project._project.catalog
    catalog.ensure_namespace("other")
    rows = pa.table({"city": ["Bonn", "Kiel"], "effective_from": [1, 2]})
    catalog.catalog.create_table("other.place", schema=rows.schema).append(rows)
    catalog.catalog.create_table("other.Odd Name 2", schema=rows.schema).append(rows)
    project.run("column_index")
    search = open_search(project._project)
    hits = search.like(search.column("shop.customer.town"), k=2)
    assert {hit.column_id for hit in hits} == {"other.place.city", "other.Odd Name 2.city"}
    assert "other.place.effective_from" in signatures(project)
    assert "other.Odd Name 2.city" in signatures(project)
    catalog.catalog.drop_table("other.place")
    catalog.catalog.drop_table("other.Odd Name 2")
    project.run("column_index")
    assert not [name for name in signatures(project) if name.startswith("other.")]


def test_tables_of_other_formats_are_seen_as_their_formats_tell(project: TemporaryProject) -> None:
    own, name = project._project, TableName("shop", "customer")
    (listed,) = [t for t in lake_tables(own.catalog, own.declarations.tables) if t.table == "customer"]
    seen = column_index.declared_version(own, name)
    assert seen is not None
    assert (seen.version, seen.tags, seen.personal) == (listed.version, listed.tags, listed.personal)
    here, there = column_index.sketch_table(own, listed), column_index.sketch_declared(own, name)
    assert {c: s.to_plain() for c, s in here.items()} == {c: s.to_plain() for c, s in there.items()}


def test_spark_sketches_what_arrow_sketches(project: TemporaryProject) -> None:
    rows = pa.table(
        {
            "number": pa.array([1.5, float("nan"), None, 2.0] * 500, pa.float64()),
            "text": [f"v{n % 700}" for n in range(2000)],
            "odd `name`.x": [None] * 2000,
            "nested": [{"a": n % 3} for n in range(2000)],
        }
    )
    schema = from_arrow_schema(rows.schema)  # PySpark 3.5 makes no frame from a table of Arrow
    frame = project._project.session.createDataFrame(rows.to_pylist(), schema).repartition(3)
    there, here = sketch_frame(frame), sketch_batches([rows])
    assert there.keys() == here.keys()
    for name, sketch in here.items():
        found = there[name]
        assert (found.rows, found.nulls, found.distinct) == (sketch.rows, sketch.nulls, sketch.distinct), name
        assert {key: count for key, (_, count) in found.sample.items()} == {
            key: count for key, (_, count) in sketch.sample.items()
        }
        assert (found.minimum, found.maximum) == (sketch.minimum, sketch.maximum)


@pytest.mark.parametrize(("small", "tag"), [(1 << 24, "arrow"), (-1, "spark")])
def test_a_column_that_was_renamed_is_indexed_by_its_new_name(
    project: TemporaryProject, monkeypatch: pytest.MonkeyPatch, small: int, tag: str
) -> None:
    monkeypatch.setattr(column_index, "SMALL_TABLE", small)
    declared = {"source": "shop", "keys": ["id"], "personal": ["nick"], "tags": [tag]}
    source = {"type": "dms", "path": str(project.landing / "shop"), "file_format": "parquet",
              "sequence_column": "change_seq"}  # fmt: skip
    project.declare({"shop": source}, {"shop.customer": declared | {"rename": {"town": "city"}}})
    project.run()
    found = [key for key in signatures(project) if key.startswith("shop.customer.")]
    assert sorted(found) == sorted(f"shop.customer.{column}" for column in ("id", "nick", "city"))
    own = project._project
    search = open_search(own)
    assert distinct_values(own, search.column("shop.customer.city")) == {"bonn", "trier"}
