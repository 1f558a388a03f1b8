"""What is read of an embedded catalog without pyiceberg: the same as pyiceberg reads, or nothing."""

import datetime as dt
import json
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.manifest import read_manifest_list

from kedro_lakehouse.errors import PlaceUnusableError
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.store import BATCH_LEDGER, RUNS, OpsStore
from kedro_lakehouse.session.catalog import MetadataCatalog
from kedro_lakehouse.session.embedded import _UNREADABLE, EmbeddedTable, UnusualError, _files_of, _records

pytestmark = pytest.mark.unit

NAME = TableName("shop", "item")
AT = dt.datetime(2026, 11, 21, 0, 21, 18, 123456, tzinfo=dt.UTC)
FILES = pa.list_(pa.struct({"path": pa.string(), "size": pa.int64()}))
ROWS = pa.table(
    {
        "id": pa.array([1, 2, None], pa.int64()),
        "label": ["a", "b", None],
        "seen": pa.array([AT, None, AT], pa.timestamp("us", tz="UTC")),
        "files": pa.array([[{"path": "p", "size": 1}], [], None], FILES),
    }
)


def opened(folder):
    conf = {
        "type": "jdbc",
        "uri": f"jdbc:sqlite:file:{folder}/lake/catalog.db",
        "warehouse": f"{folder}/lake",
    }
    return MetadataCatalog({f"spark.sql.catalog.lake.{key}": value for key, value in conf.items()})


@pytest.fixture
def catalog(tmp_path):
    made = opened(tmp_path)
    made.ensure_namespace("shop")
    return made


@pytest.fixture
def item(catalog):
    table = catalog.catalog.create_table(NAME.identifier, schema=ROWS.schema, properties={"kept": "x"})
    table.append(ROWS)
    return table


def plain(catalog):
    return EmbeddedTable.read(catalog._locations(NAME)[NAME.identifier])


def without_pyiceberg(monkeypatch, catalog):
    def refuse(*_):
        raise AssertionError("pyiceberg was asked")

    monkeypatch.setattr(catalog, "load_table", refuse)


def change_in(table, **facts):
    file = Path(table.metadata_location.removeprefix("file://"))
    file.write_text(json.dumps(json.loads(file.read_text()) | facts))


def test_rows_and_outline_are_those_that_pyiceberg_reads(catalog, item, monkeypatch):
    item.append(ROWS.slice(0, 1))
    item.delete("id = 2")
    with item.update_schema() as update:
        update.union_by_name(pa.schema([("later", pa.string())]))
    item.append(ROWS.append_column("later", pa.array(["x", "y", "z"])))
    wanted, summary = (
        item.scan().to_arrow().to_pylist(),
        item.current_snapshot().summary.additional_properties,
    )
    without_pyiceberg(monkeypatch, catalog)
    found, outline = catalog.read_rows(NAME), catalog.outline(NAME)
    assert found.to_pylist() == wanted
    assert list(found.to_pylist()[0]) == ["id", "label", "seen", "files", "later"]
    assert (outline.columns, outline.properties["kept"]) == (5, "x")
    assert outline.snapshot_id == item.current_snapshot().snapshot_id
    assert {key: outline.summary[key] for key in summary} == summary


@pytest.mark.parametrize(
    "where", [("id", 2), ("id", None), ("label", "b"), ("label", "none has it"), ("label", None)]
)
def test_a_condition_selects_what_pyiceberg_selects(catalog, item, monkeypatch, where):
    item.append(ROWS)
    with monkeypatch.context() as patch:
        patch.setattr(catalog, "_embedded", lambda *_: EmbeddedTable({}).read_rows())
        wanted = catalog.read_rows(NAME, where).to_pylist()
    without_pyiceberg(monkeypatch, catalog)
    assert catalog.read_rows(NAME, where).to_pylist() == wanted


def test_the_projects_own_tables_are_read_also_after_they_were_compacted(catalog, monkeypatch):
    store, rows = OpsStore(catalog), []
    for number in range(30):
        of = {"table": f"t{number % 2}", "batch": number % 3 or None, "run_id": f"r{number % 5}"}
        rows.append(of | {"planned_at": AT})
        store.append(BATCH_LEDGER, rows[-1:])
    without_pyiceberg(monkeypatch, catalog)
    kept = store.read(BATCH_LEDGER)
    order = [(row["table"], row["batch"], row["planned_at"]) for row in kept]
    assert sorted(order, key=str) == sorted(((r["table"], r["batch"], AT) for r in rows), key=str)
    assert str(kept[0]["planned_at"].tzinfo) == "UTC"
    assert len(store.read(BATCH_LEDGER, of_table="t1")) == 15
    assert len(store.read_without_batch(BATCH_LEDGER)) == 10
    assert len(store.read_of_run(BATCH_LEDGER, "r4")) == 6
    assert store.read(RUNS) == []


@pytest.mark.parametrize("small", [0, 10**9])
def test_of_a_large_file_only_row_groups_that_may_fit_are_read(catalog, monkeypatch, small):
    monkeypatch.setattr("kedro_lakehouse.session.embedded._SMALL", small)
    store = OpsStore(catalog)
    rows = [{"table": f"t{n // 4_000}", "batch": n if n % 1_000 else None} for n in range(20_000)]
    store.append(BATCH_LEDGER, rows)
    without_pyiceberg(monkeypatch, catalog)
    table = EmbeddedTable.read(
        next(iter(catalog._locations(TableName.ops(BATCH_LEDGER).identifier).values()))
    )
    read = len(table.read_rows(("table", "t3")))
    assert read == (20_000 if small else 10_000), "two groups of 5,000 hold rows of t3"
    assert sorted(r["batch"] or 0 for r in store.read(BATCH_LEDGER, of_table="t3")) == sorted(
        (n if n % 1_000 else 0) for n in range(12_000, 16_000)
    )
    assert len(store.read_without_batch(BATCH_LEDGER)) == 20
    assert store.read(BATCH_LEDGER, of_table="nobody") == []


def test_no_table_no_catalog_and_an_empty_table(catalog, tmp_path):
    other = MetadataCatalog(
        {"spark.sql.catalog.lake.type": "jdbc", "spark.sql.catalog.lake.uri": f"jdbc:sqlite:{tmp_path}/no.db"}
    )
    for one in (catalog, other):
        assert one.read_rows(NAME) is None
        assert one.outline(NAME) is None
    assert not (tmp_path / "no.db").exists()
    catalog.catalog.create_table(NAME.identifier, schema=ROWS.schema)
    assert catalog.read_rows(NAME).to_pylist() == []
    assert catalog.outline(NAME).snapshot_id is None


def test_a_listing_holds_for_its_block_alone(catalog):
    with catalog.listed():
        table = catalog.catalog.create_table(NAME.identifier, schema=ROWS.schema)
        assert catalog.outline(NAME) is None
    assert catalog.outline(NAME).columns == 4
    table.append(ROWS)
    assert catalog.outline(NAME).summary["total-records"] == "3"


def test_a_renamed_column_is_left_to_pyiceberg(catalog, item):
    with item.update_schema() as update:
        update.rename_column("label", "title")
    with pytest.raises(UnusualError):
        plain(catalog).read_rows()
    assert catalog.read_rows(NAME).column("title").to_pylist() == ["a", "b", None]


def test_a_column_that_no_file_has_is_left_to_pyiceberg(catalog, item):
    with item.update_schema() as update:
        update.union_by_name(pa.schema([("later", pa.string())]))
    with pytest.raises(UnusualError):
        plain(catalog).read_rows()
    assert catalog.read_rows(NAME).column("later").to_pylist() == [None] * 3


def test_a_partitioned_table_is_left_to_pyiceberg(catalog, item):
    with item.update_spec() as update:
        update.add_identity("label")
    with pytest.raises(UnusualError):
        plain(catalog).read_rows()
    assert len(catalog.read_rows(NAME)) == 3


@pytest.mark.parametrize("facts", [{"format-version": 3}, {"current-schema-id": 9}, {"snapshots": []}])
def test_unusual_metadata_is_left_to_pyiceberg(catalog, item, facts):
    change_in(item, **facts)
    with pytest.raises(UnusualError):
        plain(catalog)


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff\xfe"])
def test_damaged_metadata_is_told_as_before(tmp_path, item, content):
    Path(item.metadata_location.removeprefix("file://")).write_bytes(content)
    catalog = opened(tmp_path)  # as another process: the one that wrote them has them
    for look in (catalog.outline, catalog.read_rows):
        with pytest.raises(PlaceUnusableError):
            look(NAME)


def test_a_file_that_is_gone_is_told_by_its_name(catalog, item):
    (file,) = item.scan().plan_files()
    Path(file.file.file_path.removeprefix("file://")).unlink()
    with pytest.raises(FileNotFoundError, match=r"\.parquet"):
        catalog.read_rows(NAME)


def test_a_catalog_of_an_earlier_kind_is_left_to_pyiceberg(catalog, item):
    with closing(sqlite3.connect(catalog.place)) as connection:
        connection.execute("ALTER TABLE iceberg_tables DROP COLUMN iceberg_type")
    with pytest.raises(UnusualError):
        catalog._embedded(NAME)


def test_manifests_of_deletes_and_files_of_other_kinds_are_refused(item):
    snapshot = item.current_snapshot()
    (manifest,) = read_manifest_list(item.io.new_input(snapshot.manifest_list))
    with pytest.raises(UnusualError):
        list(_files_of({"content": 1, "manifest_path": manifest.manifest_path}))
    assert [str(file) for file in _files_of({"content": 0, "manifest_path": manifest.manifest_path})] == [
        entry.data_file.file_path.removeprefix("file://") for entry in manifest.fetch_manifest_entry(item.io)
    ]


def test_a_manifest_that_is_cut_off_is_refused(item, tmp_path):
    raw = Path(item.current_snapshot().manifest_list.removeprefix("file://")).read_bytes()
    cut = tmp_path / "cut.avro"
    cut.write_bytes(raw)
    (whole,) = _records(str(cut))
    assert whole["added_files_count"] == 1
    ends = raw.index(raw[-16:]) + 16  # the header alone is a file without records
    for size in [*range(0, ends, 7), *range(ends + 1, len(raw), 7)]:
        cut.write_bytes(raw[:size])
        with pytest.raises(_UNREADABLE):
            _records(str(cut))


def test_the_commands_that_only_look_import_neither_pyiceberg_nor_pandas(catalog, item, tmp_path):
    OpsStore(catalog).append(RUNS, [{"run_id": "r", "started_at": AT, "ended_at": AT}])
    code = f"""
import sys
from kedro_lakehouse.names import TableName
from kedro_lakehouse.ops.store import OpsStore
from kedro_lakehouse.session.catalog import MetadataCatalog
catalog = MetadataCatalog({catalog._conf!r})
assert catalog.outline(TableName("shop", "item")).columns == 4
assert len(OpsStore(catalog).read("runs")) == 1
assert len(OpsStore(catalog).read_without_batch("batch_ledger")) == 0
print([name for name in ("pandas", "pyiceberg", "sqlalchemy") if name in sys.modules])
"""
    ran = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert ran.stdout == "[]\n"
