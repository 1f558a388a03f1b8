"""Every table format keeps the contract: those of the project, and the example plug-in as it is installed."""

from __future__ import annotations

import dataclasses
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from harness.formats import InOneSession, LooksUp
from harness.project import ROOT
from harness.soak import only_in_soak
from py4j.protocol import Py4JError, Py4JJavaError

from kedro_lakehouse.config.maintenance import TableMaintenanceConfig
from kedro_lakehouse.errors import BookmarkGoneError, CommitConflictError, UnsupportedError
from kedro_lakehouse.formats.base import Layout
from kedro_lakehouse.formats.delta.commit import DeltaCommit
from kedro_lakehouse.formats.delta.format import DeltaFormat
from kedro_lakehouse.formats.delta.log import DeltaLog
from kedro_lakehouse.formats.iceberg.format import IcebergFormat
from kedro_lakehouse.formats.iceberg.stage import IcebergStage
from kedro_lakehouse.names import quote
from kedro_lakehouse.plugins import TABLE_FORMATS, load_plugin
from kedro_lakehouse.testing import cut_off, report, rows_of
from kedro_lakehouse.testing.memory import MemoryFormat, MemoryStage
from kedro_lakehouse.testing.samples import COLUMNS, FIRST

pytestmark = [pytest.mark.contract, pytest.mark.spark]

UV = str(Path(sys.executable).with_name("uv"))
SILENT = OSError("no answer")


def unknown_state(session) -> Py4JJavaError:
    """What Iceberg raises where its catalog gives no answer, as the JVM hands it on."""
    failed = session._jvm.java.util.concurrent.CompletableFuture()
    silent = session._jvm.java.io.IOException("no answer")
    failed.completeExceptionally(
        session._jvm.org.apache.iceberg.exceptions.CommitStateUnknownException(silent)
    )
    with pytest.raises(Py4JJavaError) as raised:
        failed.join()
    return raised.value


class TestIceberg(InOneSession):
    made_by = IcebergFormat

    @pytest.fixture(params=["the catalog", "the JVM"])
    def lose(self, request, session):
        silent = unknown_state(session) if request.param == "the catalog" else Py4JError("no answer")
        return lambda lost: cut_off(IcebergStage, "_commit", lost, silent)

    def test_small_delete_files_become_one(self, made, session, table) -> None:
        made.create(table, COLUMNS, Layout(properties={"write.delete.granularity": "partition"}))
        rows = session.range(1000).selectExpr("id", "'word' AS word", "cast(id AS int) AS n")
        for batch in range(1, 7):
            with made.stage(table, made.state(table)) as stage:
                if batch == 1:
                    stage.append(rows)
                else:
                    stage.merge(rows.where(f"id = {batch}").select("id"), None, ["id"])
                stage.publish(report(batch))
        settings = TableMaintenanceConfig()
        (action,) = made.maintenance.plan(table, settings)
        assert (action.work, action.files) == ("rewrite_position_deletes", 5)
        made.maintenance.perform(table, action, settings)
        assert made.maintenance.storage(table).delete_files == 1
        assert made.maintenance.plan(table, settings) == []
        assert (made.state(table).batch, made.state(table).rows, made.read(table).count()) == (6, 995, 995)

    def test_a_branch_that_somebody_moved_is_not_published(self, made, session, table) -> None:
        made.create(table, COLUMNS, Layout())
        rows = session.range(3).selectExpr("id", "'word' AS word", "cast(id AS int) AS n")
        with made.stage(table, made.state(table)) as stage:
            stage.append(rows)
            stage.publish(report(1))
        head = made.state(table).snapshot_id
        with made.stage(table, made.state(table)) as stage:
            stage.append(rows.where("id = 0"))
            # Anybody can do so: what was staged is then no longer what would be published.
            session.sql(f"ALTER TABLE {table.sql} REPLACE BRANCH {quote(stage.branch)} AS OF VERSION {head}")
            with pytest.raises(CommitConflictError):
                stage.publish(report(2))
        assert (made.state(table).batch, made.read(table).count()) == (1, 3)

    @pytest.mark.parametrize("partition_by", [[], ["bucket(2, id)"]])
    @pytest.mark.parametrize("wide", [0, 10_000])
    def test_many_small_commits_leave_few_files(self, made, table, partition_by, wide) -> None:
        pick, expected, sizes, manifests = random.Random(3), {}, [], []  # noqa: S311 - the same each time
        made.create(table, COLUMNS, Layout(identity=["id"], partition_by=partition_by, sort_by=["id"]))
        for batch in range(1, 31):
            rows = {pick.randrange(60): f"{batch}{pick.randbytes(wide).hex()}" for _ in range(6)}
            gone = pick.sample(sorted(expected), min(2, len(expected)))
            state = made.state(table)
            placed = made.find_rows(table, state, {"id": [*rows, *gone]}, most_bytes=2**20)
            expected = {i: word for i, word in expected.items() if i not in gone} | rows
            new = pa.table({"id": [*rows], "word": [*rows.values()], "n": pa.nulls(len(rows), pa.int32())})
            self.change(made, table, state, new, placed.places, batch, len(expected))
            found = made._catalog.find(table)
            tasks = list(found.scan().plan_files())
            sizes.append(len(tasks) + len({d.file_path for task in tasks for d in task.delete_files}))
            manifests.append(len(found.current_snapshot().manifests(found.io)))
            read = found.scan().to_arrow().to_pylist()
            assert sorted((row["id"], row["word"]) for row in read) == sorted(expected.items())
            if batch == 20:
                middle = made.state(table).snapshot_id, dict(expected)
        partitions = 2 if partition_by else 1
        assert max(sizes) <= (5 * partitions if wide else partitions)
        assert max(manifests) <= 2
        assert rows_of(made.read(table), "id", "word") == sorted(expected.items(), key=repr)
        assert made.state(table).rows == len(expected)
        assert "commit.manifest.min-count-to-merge" not in found.properties
        named = {m.manifest_path for s in found.metadata.snapshots for m in s.manifests(found.io)}
        named |= {s.manifest_list for s in found.metadata.snapshots}
        written = Path(found.location().removeprefix("file:"), "metadata").glob("*.avro")
        assert {path.name for path in written} == {place.rpartition("/")[2] for place in named}
        then = found.scan(snapshot_id=middle[0]).to_arrow().to_pylist()
        assert {row["id"]: row["word"] for row in then} == middle[1]
        kinds = [snapshot.summary.operation.value for snapshot in found.metadata.snapshots]
        assert kinds.count("replace") > 5 if wide else "replace" not in kinds
        state = made.state(table)
        placed = made.find_rows(table, state, {"id": [*expected]}, most_bytes=2**20)
        self.change(made, table, state, None, placed.places, 31, 0)
        assert (made.state(table).rows, made.read(table).count()) == (0, 0)

    def change(self, made, table, state, new, places, batch, left) -> None:
        files = made.write_files(table, state, new, places)
        with made.stage(table, state) as stage:
            stage.put(files)
            stage.expect(left)
            stage.publish(report(batch))


@pytest.mark.slow
class TestMemory(InOneSession):
    made_by = MemoryFormat

    @pytest.fixture
    def lose(self):
        return lambda lost: cut_off(MemoryStage, "_commit", lost, SILENT)


@pytest.mark.slow
@only_in_soak
class TestParquetPlugin(InOneSession):
    @pytest.fixture(scope="class")
    @classmethod
    def make_format(cls, context, tmp_path_factory):
        place = str(tmp_path_factory.mktemp("installed"))
        words = ("--offline", "-q", "--no-deps", "--build-constraints", str(ROOT / "bin/build.txt"))
        install = [UV, "pip", "install", *words, "--target", place, str(ROOT / "examples/parquet-format")]
        subprocess.run(install, check=True)
        sys.path.append(place)
        made_by: Any = load_plugin(TABLE_FORMATS, "parquet")
        yield lambda run_id: made_by(dataclasses.replace(context, run_id=run_id))
        sys.path.remove(place)

    @pytest.fixture
    def lose(self, make_format):
        plugin = sys.modules[type(make_format("run")).__module__]
        return lambda lost: cut_off(plugin, "_write", lost, SILENT)


@pytest.mark.delta
class TestDelta(LooksUp):
    made_by = DeltaFormat
    commits, looks_up = (DeltaCommit, "_write"), (DeltaLog, "open")
    error = SILENT

    def test_the_bookmark_outlives_optimize_and_vacuum(self, made, session, filled) -> None:
        before = made.state(filled)
        session.sql(f"OPTIMIZE {made.sql(filled)}")
        session.sql(f"VACUUM {made.sql(filled)}")
        after = made.state(filled)
        assert (after.bookmark, after.rows, after.snapshot_id) == (before.bookmark, 3, before.snapshot_id)

    def test_a_log_without_the_bookmark_is_told(self, made, session, filled) -> None:
        entry = Path(made.path(filled)) / "_delta_log" / f"{made.state(filled).snapshot_id:020}.json"
        session.sql(f"OPTIMIZE {made.sql(filled)}")
        DeltaTable(made.path(filled)).create_checkpoint()
        entry.unlink()
        with pytest.raises(BookmarkGoneError):
            made.state(filled)

    def test_rows_that_somebody_else_changed_are_counted(self, made, session, filled) -> None:
        session.sql(f"DELETE FROM {made.sql(filled)} WHERE id = 1")
        state = made.state(filled)
        assert (state.rows, state.batch) == (2, 1)
        assert state.snapshot_id > 1

    def test_change_data_and_clusters_are_deltas_own(self, made, session, table) -> None:
        layout = Layout(sort_by=["word"], properties={"delta.enableChangeDataFeed": "true"})
        made.create(table, COLUMNS, layout)
        for batch in (1, 2):
            with made.stage(table, made.state(table)) as stage:
                rows = session.createDataFrame(list(FIRST), "id bigint, word string, n int")
                (stage.append if batch == 1 else stage.replace)(rows)
                stage.publish(report(batch))
        feed = session.read.format("delta").option("readChangeFeed", "true").option("startingVersion", "1")
        kinds = feed.load(made.path(table)).groupBy("_change_type").count()
        assert rows_of(kinds) == [("delete", 3), ("insert", 6)]
        detail = session.sql(f"DESCRIBE DETAIL {made.sql(table)}").collect()[0]
        assert detail["clusteringColumns"] == ["word"]

    @pytest.mark.parametrize(
        "layout",
        [
            Layout(partition_by=["id"], sort_by=["word"]),
            Layout(properties={"write.format.default": "orc"}),
        ],
    )
    def test_a_layout_that_delta_has_not_is_refused(self, made, table, layout) -> None:
        with pytest.raises(UnsupportedError):
            made.create(table, COLUMNS, layout)
        assert made.state(table) is None
