"""What is due for an Iceberg table is told by its metadata: no JVM."""

import datetime as dt
import os
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from kedro_lakehouse.config.maintenance import CompactConfig, ExpireConfig, load_maintenance
from kedro_lakehouse.formats.iceberg.files import expired_snapshots, expiry_limit, orphan_files, storage
from kedro_lakehouse.formats.iceberg.maintenance import IcebergMaintenance
from kedro_lakehouse.formats.iceberg.snapshots import IcebergSnapshots
from kedro_lakehouse.formats.maintenance import compaction
from kedro_lakehouse.names import TableName

pytestmark = pytest.mark.unit

NAME = TableName("a", "b")


class OneTable:
    def __init__(self, table):
        self.table = table

    def find(self, name):
        return self.table.refresh() if name == NAME else None


def never():
    raise AssertionError


@pytest.fixture
def table(tmp_path):
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}")
    catalog.create_namespace("a")
    return catalog.create_table("a.b", pa.schema([("id", pa.int64())]))


def append(table, times):
    for number in range(times):
        table.append(pa.table({"id": pa.array([number], pa.int64())}))


def works(table, **settings):
    plan = IcebergMaintenance(never, OneTable(table)).plan(NAME, load_maintenance(settings, []))
    return {action.work: action.files for action in plan}


def test_nothing_is_due_below_the_thresholds(table):
    assert works(table) == {}
    append(table, 4)
    assert works(table) == {}
    assert (
        IcebergMaintenance(never, OneTable(table)).plan(TableName("a", "x"), load_maintenance({}, [])) == []
    )


def test_small_files_and_many_manifests_are_due(table):
    append(table, 6)
    assert works(table) == {"compact": 6}
    assert works(table, compact={"small_files": 7}) == {}
    assert works(table, compact={"small_files": 7}, manifests={"at_least": 6}) == {"rewrite_manifests": 6}
    found = storage(table)
    assert (found.files, found.manifests, found.snapshots) == (6, 6, 6)


def test_a_table_with_a_stage_is_left_alone(table):
    append(table, 6)
    head = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_branch(snapshot_id=head, branch_name="stage_x").commit()
    assert works(table) == {}


def test_newest_and_tagged_snapshots_stay(table):
    append(table, 5)
    ids = [s.snapshot_id for s in table.metadata.snapshots]
    table.manage_snapshots().create_tag(snapshot_id=ids[0], tag_name="first").commit()
    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    gone = expired_snapshots(table, before=later, keep=2)
    assert [s.snapshot_id for s in gone] == ids[1:3]
    assert expired_snapshots(table, before=later - dt.timedelta(days=1), keep=2) == []


def test_of_too_many_snapshots_the_newest_half_stays_and_those_of_the_last_minutes(table):
    append(table, 5)
    times = [s.timestamp_ms / 1000 for s in table.metadata.snapshots]
    later = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    of_age = later - ExpireConfig().older_than
    assert expiry_limit(table, ExpireConfig(), later) == of_age
    assert expiry_limit(table, ExpireConfig(most=5), later) == of_age
    assert expiry_limit(table, ExpireConfig(most=4), later).timestamp() == pytest.approx(times[3], abs=1e-6)
    now = dt.datetime.now(dt.UTC)
    assert expiry_limit(table, ExpireConfig(most=4), now) == now - dt.timedelta(minutes=5)


def test_only_old_files_that_no_metadata_names_are_orphans(table):
    append(table, 2)
    folder = Path(table.location().removeprefix("file://"))
    for name, days in (("old.parquet", 5), ("new.parquet", 0)):
        path = folder / "data" / name
        path.write_bytes(b"x" * 7)
        moment = dt.datetime.now(dt.UTC).timestamp() - days * 86400
        os.utime(path, (moment, moment))
    for path in folder.rglob("*"):
        if path.name != "new.parquet":
            os.utime(path, (0, 0))
    found = orphan_files(table, before=dt.datetime.now(dt.UTC) - dt.timedelta(days=1))
    assert {Path(path).name: size for path, size in found.items()} == {"old.parquet": 7}


def test_a_partition_by_a_column_with_an_underscore_is_no_hidden_folder(table):
    with table.update_spec() as spec:
        spec.add_field("id", "identity", "_op")
    folder = Path(table.location().removeprefix("file://"))
    for place in ("_op=1", "_started", ".tried"):
        path = folder / "data" / place / "00000.parquet"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x")
    found = orphan_files(table, before=dt.datetime.now(dt.UTC) + dt.timedelta(minutes=1))
    assert [Path(path).parent.name for path in found if path.endswith(".parquet")] == ["_op=1"]


def test_snapshots_are_listed_the_newest_first_with_their_names(table):
    append(table, 3)
    ids = [s.snapshot_id for s in table.metadata.snapshots]
    table.manage_snapshots().create_tag(snapshot_id=ids[1], tag_name="kept").commit()
    table.manage_snapshots().rollback_to_snapshot(ids[0]).commit()
    table.manage_snapshots().create_branch(snapshot_id=ids[2], branch_name="stage_x").commit()
    listed = IcebergSnapshots(never, OneTable(table)).list(NAME)
    assert [(s.snapshot_id, s.on_main, list(s.names)) for s in listed] == [
        (ids[1], False, ["kept"]), (ids[0], True, []),
    ]  # fmt: skip
    assert [s.rows for s in listed] == [2, 1]


def test_of_a_stage_of_several_snapshots_only_the_state_that_readers_saw_is_listed(table):
    append(table, 1)
    (first,) = [s.snapshot_id for s in table.metadata.snapshots]
    table.manage_snapshots().create_branch(snapshot_id=first, branch_name="stage_x").commit()
    for _ in range(2):  # as a merge deletes, and then appends
        table.append(pa.table({"id": pa.array([7], pa.int64())}), branch="stage_x")
    table.refresh()
    head = table.metadata.refs["stage_x"].snapshot_id
    with table.transaction() as change:
        change._apply(*change._set_ref_snapshot(head, "main", "branch"))
    append(table, 1)
    listed = IcebergSnapshots(never, OneTable(table)).list(NAME)
    newest = table.current_snapshot().snapshot_id
    assert [(s.snapshot_id, s.parent_id) for s in listed] == [(newest, head), (head, first), (first, None)]
    snapshots = IcebergSnapshots(never, OneTable(table))
    # Who goes back to the time that is listed comes to that state.
    assert [snapshots.published_at(NAME, s.committed_at) for s in listed] == [newest, head, first]


def test_small_files_count_by_partition_and_large_ones_not_at_all():
    settings = CompactConfig(small_files=2, small_below=0.5)
    assert compaction([("a", 4), ("b", 4), ("b", 6)], settings, 10) == []
    (action,) = compaction([("a", 4), ("a", 3), ("a", 9), ("b", 1)], settings, 10)
    assert (action.work, action.files, action.bytes) == ("compact", 2, 7)
