"""What must be true of every table format: subclass ``TableFormatContract`` and provide its fixtures."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, ClassVar

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.config.maintenance import ExpireConfig, OrphansConfig, TableMaintenanceConfig
from kedro_lakehouse.errors import (
    AuditFailedError,
    CommitConflictError,
    IncompatibleTypeError,
    UnsupportedError,
)
from kedro_lakehouse.file_search.search import search_files
from kedro_lakehouse.file_search.wanted import Wanted
from kedro_lakehouse.formats.base import KeepsPublished, Layout, PurgesRows, RenamesColumns
from kedro_lakehouse.formats.maintenance import MaintainsTables
from kedro_lakehouse.names import TableName, quote
from kedro_lakehouse.ops.table_summary import Glanceable
from kedro_lakehouse.testing.commits import CommitContract
from kedro_lakehouse.testing.making import numbers
from kedro_lakehouse.testing.samples import (
    COLUMNS,
    FIRST,
    HOSTILE,
    frame_of,
    report,
    rows_of,
    state_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import SparkSession

    from kedro_lakehouse.formats.base import TableFormat


class TableFormatContract(CommitContract):
    """The contract suite: it proves each declared capability, and that the format refuses the others.

    Example:
        In the plug-in's own tests::

            class TestMyFormat(TableFormatContract):
                @pytest.fixture(scope="class")
                def make_format(self, context):
                    return lambda run_id: MyFormat(dataclasses.replace(context, run_id=run_id))

                @pytest.fixture(scope="class")
                def session(self, context):
                    return context.session()

                @pytest.fixture
                def lose(self):
                    return lambda lost: cut_off(MyFormat, "commit", lost, OSError("no answer"))
    """

    hostile: ClassVar[Sequence[str]] = HOSTILE
    """Names of columns, hard to quote, that the format must be able to store."""
    purge_ends_stages: ClassVar[bool] = True
    """Whether a stage that was begun before a purge is refused; if not, it holds no deleted row."""

    def test_rows_are_merged_by_key(
        self, made: TableFormat, session: SparkSession, filled: TableName
    ) -> None:
        rows_to_delete = frame_of(session, (1, "", 0), (2, "", 0)).select("id")
        new = frame_of(session, (2, "zwei", 22), (4, "four", 4))
        with made.stage(filled, made.state(filled)) as stage:
            if not made.capabilities.merge:
                with pytest.raises(UnsupportedError):
                    stage.merge(rows_to_delete, new, ["id"])
                return
            stage.merge(rows_to_delete, new, ["id"], near={"id": (1, 4)})
            stage.expect(3)
            assert rows_of(stage.appended(), "id", "n") == [(2, 22), (4, 4)]
            expected = [(2, "zwei", 22), (3, "three", 3), (4, "four", 4)]
            assert rows_of(stage.staged()) == expected
            stage.publish(report(2))
        assert (rows_of(made.read(filled)), state_of(made, filled).rows) == (expected, 3)
        with made.stage(filled, made.state(filled)) as stage:
            stage.merge(rows_to_delete.where("id = 2"), None, ["id"])
            assert not stage.has_new_rows
            stage.expect(2)
            stage.publish(report(3))
        assert rows_of(made.read(filled), "id") == [(3,), (4,)]

    def test_the_versions_of_a_row_are_kept(
        self, made: TableFormat, session: SparkSession, table: TableName
    ) -> None:
        columns, on = dict(COLUMNS) | {"until": T.IntegerType()}, ["id", "n"]
        made.create(table, columns, Layout(identity=on))
        opened = [(1, "one", 1, None), (2, "two", 1, None)]
        with made.stage(table, made.state(table)) as stage:
            stage.append(frame_of(session, *opened, columns=columns))
            stage.publish(report(1))
        closed = [(1, "one", 1, 5), (1, "eins", 5, None)]
        new = frame_of(session, *closed, columns=columns)
        with made.stage(table, made.state(table)) as stage:
            if not made.capabilities.merge:
                with pytest.raises(UnsupportedError):
                    stage.merge(new.where("until = 5").select(*on), new, on)
                return
            stage.merge(new.where("until = 5").select(*on), new, on)
            stage.expect(3)
            stage.publish(report(2))
        assert rows_of(made.read(table), *columns) == sorted([*closed, opened[1]], key=repr)

    def test_rows_of_a_table_without_identity_are_merged(
        self, made: TableFormat, session: SparkSession, table: TableName
    ) -> None:
        held, on = [*FIRST, (1, "one again", 2)], ["id", "n"]
        made.create(table, COLUMNS, Layout())
        with made.stage(table, made.state(table)) as stage:
            stage.append(frame_of(session, *held))
            stage.publish(report(1))
        if not made.capabilities.merge:
            return
        rows_to_delete = frame_of(session, (1, "", 1), (2, "", 2)).select(*on)
        with made.stage(table, made.state(table)) as stage:
            stage.merge(rows_to_delete, frame_of(session, (2, "zwei", 2), (4, "four", 4)), on)
            stage.expect(4)
            stage.publish(report(2))
        expected = [(1, "one again", 2), (2, "zwei", 2), (3, "three", 3), (4, "four", 4)]
        assert (rows_of(made.read(table)), state_of(made, table).rows) == (expected, 4)
        with made.stage(table, made.state(table)) as stage:
            stage.merge(frame_of(session, (2, "", 2), (4, "", 4)).select(*on), None, on)
            stage.expect(2)
            stage.publish(report(3))
        assert rows_of(made.read(table)) == [expected[0], expected[2]]

    def test_a_merge_of_rows_that_are_not_there_is_seen_by_the_audit(
        self, made: TableFormat, session: SparkSession, filled: TableName
    ) -> None:
        absent, audited = frame_of(session, (77, "", 0)).select("id"), made.capabilities.staged_audit
        error = AuditFailedError if made.capabilities.merge else UnsupportedError
        # A format without a staged audit commits the merge as it was planned, without a check.
        with (
            pytest.raises(error) if audited else nullcontext(),
            made.stage(filled, made.state(filled)) as stage,
        ):
            stage.merge(absent, None, ["id"])
            stage.expect(2)
            stage.publish(report(2))
        assert state_of(made, filled).batch == (1 if audited else 2)
        assert rows_of(made.read(filled), "id") == [(1,), (2,), (3,)]

    def test_rows_are_replaced(self, made: TableFormat, filled: TableName) -> None:
        with made.stage(filled, made.state(filled)) as stage:
            stage.replace(made.read(filled).where("id > 1").withColumn("n", F.col("n") + 10))
            stage.expect(2)
            assert rows_of(stage.staged(), "id", "n") == [(2, 12), (3, 13)]
            stage.publish(report(2))
        assert (rows_of(made.read(filled), "id"), state_of(made, filled).rows) == ([(2,), (3,)], 2)

    def test_rows_that_meet_a_condition_are_replaced(
        self, made: TableFormat, session: SparkSession, filled: TableName
    ) -> None:
        with made.stage(filled, made.state(filled)) as stage:
            if not made.capabilities.merge:
                with pytest.raises(UnsupportedError):
                    stage.replace_where("id < 3", frame_of(session, (9, "nine", 9)))
                return
            stage.replace_where("id < 3", frame_of(session, (9, "nine", 9)))
            stage.expect(2)
            stage.publish(report(2))
        assert (rows_of(made.read(filled), "id"), state_of(made, filled).rows) == ([(3,), (9,)], 2)

    def test_columns_are_added_and_widened(
        self, made: TableFormat, session: SparkSession, filled: TableName
    ) -> None:
        wanted = dict(COLUMNS) | {
            "n": T.LongType(),
            "more": T.StructType([T.StructField("x", T.StringType())]),
        }
        if not made.capabilities.evolve:
            with pytest.raises(UnsupportedError):
                made.evolve(filled, wanted, state_of(made, filled))
            return
        for _ in range(2):
            made.evolve(filled, wanted, state_of(made, filled))
        wider = wanted | {"more": T.StructType([T.StructField(c, T.StringType()) for c in "xy"])}
        made.evolve(filled, wider, state_of(made, filled))
        with made.stage(filled, made.state(filled)) as stage:
            stage.append(frame_of(session, (2**40, "big", 2**40, ("a", "b")), columns=wider))
            stage.publish(report(2))
        found = rows_of(made.read(filled).where("id > 2"), "id", "n", "more")
        assert found == [(2**40, 2**40, ("a", "b")), (3, 3, None)]
        with pytest.raises(IncompatibleTypeError):
            made.evolve(filled, {"word": T.IntegerType()}, state_of(made, filled))

    def test_columns_leave_with_the_bookmark(self, made: TableFormat, filled: TableName) -> None:
        with made.stage(filled, made.state(filled)) as stage:
            if not made.capabilities.drop_columns:
                with pytest.raises(UnsupportedError):
                    stage.publish(report(2), without=["word"])
                return
            stage.publish(report(2), without=["word"])
        state = state_of(made, filled)
        assert (list(state.columns), state.batch, state.rows) == (["id", "n"], 2, 3)
        assert made.read(filled).columns == ["id", "n"]

    def test_columns_are_renamed_without_a_row(
        self, made: TableFormat, session: SparkSession, filled: TableName
    ) -> None:
        if not isinstance(made, RenamesColumns):
            return
        before = state_of(made, filled)
        made.rename_columns(filled, {"word": "a `new` name"})
        state = state_of(made, filled)
        assert (list(state.columns), state.rows) == (["id", "a `new` name", "n"], before.rows)
        assert state.bookmark == before.bookmark
        with made.stage(filled, state) as stage:
            stage.append(frame_of(session, (9, "nine", 9), columns=state.columns))
            stage.publish(report(2))
        assert (9, "nine") in rows_of(made.read(filled), "id", "a `new` name")

    def test_a_table_is_read_as_it_was(
        self, made: TableFormat, session: SparkSession, filled: TableName
    ) -> None:
        then, before = state_of(made, filled).snapshot_id, datetime.now(UTC)
        assert then is not None
        with made.stage(filled, made.state(filled)) as stage:
            stage.replace(frame_of(session, (9, "nine", 9)))
            stage.publish(report(2))
        if not made.capabilities.as_of:
            with pytest.raises(UnsupportedError):
                made.read_at(filled, before)
            return
        assert [made.read_at(filled, time).count() for time in (before, datetime.now(UTC))] == [3, 1]
        count = session.sql(f"SELECT count(*) FROM {made.rows_at(filled, then)}")  # noqa: S608
        assert count.collect()[0][0] == len(FIRST)
        assert made.holds_snapshot(filled, then)
        assert not made.holds_snapshot(filled, then + 10**6)

    def test_names_of_columns_are_only_names(
        self, made: TableFormat, session: SparkSession, table: TableName
    ) -> None:
        columns = {"id": T.LongType()} | {name: T.StringType() for name in self.hostile}
        made.create(table, columns, Layout())
        row = tuple(self.hostile)
        with made.stage(table, made.state(table)) as stage:
            stage.append(frame_of(session, (1, *row), (2, *row), columns=columns))
            stage.publish(report(1))
        assert made.read(table).columns == list(columns)
        if made.capabilities.merge:
            new = frame_of(session, (1, *row[:-1], "new"), columns=columns)
            with made.stage(table, made.state(table)) as stage:
                on = ["id", *self.hostile[:-1]]
                stage.merge(new.select(*map(quote, on)), new, on)
                stage.expect(2)
                stage.publish(report(2))
        assert made.read(table).where("id = 2").collect()[0][1:] == row

    def test_metadata_tell_what_a_table_may_hold(self, made: TableFormat, filled: TableName) -> None:
        assert made.may_hold(filled, "id", 2, 2)
        assert made.may_hold(filled, "word", "one", "two")
        bounds = made.bounds(filled, ["id", "word"], "n", 1, 3)
        assert bounds.rows >= len(FIRST)
        assert bounds.ranges.get("id", (1, 3)) == (1, 3)

    def test_a_view_is_made_once(self, made: TableFormat, session: SparkSession, filled: TableName) -> None:
        view = TableName("contract", f"view{next(numbers)}")
        if not made.capabilities.merge:  # and so no history
            with pytest.raises(UnsupportedError):
                made.ensure_view(view, "SELECT 1 AS id", "digest")
            return
        definition = f"SELECT id FROM {made.sql(filled)}"  # noqa: S608 - the format's own words
        assert made.ensure_view(view, definition, "digest")
        assert not made.ensure_view(view, definition, "digest")
        catalog = "lake" if made.capabilities.views else "spark_catalog"
        assert session.table(quote(catalog, view.namespace, view.table)).count() == len(FIRST)

    def test_partitions_are_those_that_the_format_has(
        self, made: TableFormat, session: SparkSession, table: TableName
    ) -> None:
        layout = Layout(partition_by=["bucket(4, id)"])
        if not made.capabilities.partition_transforms:
            with pytest.raises(UnsupportedError):
                made.create(table, COLUMNS, layout)
            assert made.state(table) is None
            layout = Layout(partition_by=["word"])
        made.create(table, COLUMNS, layout)
        with made.stage(table, made.state(table)) as stage:
            stage.append(frame_of(session, *FIRST))
            stage.publish(report(1))
        assert rows_of(made.read(table), *COLUMNS) == sorted(FIRST, key=repr)

    def test_a_dropped_table_is_another_one_when_it_is_made_again(
        self, made: TableFormat, filled: TableName
    ) -> None:
        uuid = made.uuid(filled)
        made.drop(filled)
        assert (made.state(filled), made.uuid(filled)) == (None, None)
        made.create(filled, COLUMNS, Layout())
        assert made.uuid(filled) not in (None, uuid)
        assert state_of(made, filled).rows == 0

    def test_what_is_in_the_catalog_is_told_without_a_jvm(self, made: TableFormat, filled: TableName) -> None:
        if not made.capabilities.in_catalog:
            return
        assert isinstance(made, Glanceable)
        seen, state = made.glance(filled), state_of(made, filled)
        assert seen is not None
        assert (seen.rows, seen.batch, seen.columns) == (state.rows, state.batch, len(state.columns))

    def test_maintenance_leaves_rows_and_bookmark(
        self, made: TableFormat, session: SparkSession, table: TableName
    ) -> None:
        if not made.capabilities.maintenance:
            assert not isinstance(made, MaintainsTables)
            return
        assert isinstance(made, MaintainsTables)

        def commit(batch: int) -> None:
            with made.stage(table, made.state(table)) as stage:
                stage.append(frame_of(session, (batch, "row", batch)))
                stage.publish(report(batch))

        made.create(table, COLUMNS, Layout())
        for batch in range(1, 7):
            commit(batch)
        # With ages of zero, which maintenance.yml would not allow, everything counts as old: so it is shown
        # that a replay needs no old file.
        at_once = ExpireConfig.model_construct(older_than=timedelta(0), keep=1)
        orphans = OrphansConfig.model_construct(older_than=timedelta(0))
        settings = TableMaintenanceConfig().model_copy(update={"expire": at_once, "orphans": orphans})
        work = made.maintenance
        planned = {action.work: action for action in work.plan(table, settings)}
        assert planned["compact"].files == 6
        work.perform(table, planned["compact"], settings)
        commit(7)
        before, rows = state_of(made, table), rows_of(made.read(table))
        assert len(rows) == 7
        again = {action.work: action for action in work.plan(table, settings)}
        assert "compact" not in again
        work.perform(table, again["expire_snapshots"], settings)
        storage, after = work.storage(table), state_of(made, table)
        assert storage is not None
        assert storage.files < len(rows)
        assert (after.bookmark, after.rows) == (before.bookmark, before.rows)
        assert rows_of(made.read(table)) == rows

    def folder(self, made: TableFormat, table: TableName) -> str:
        """The folder of all files of a table, also of its log; for a format that purges rows.

        A subclass says it where it is not the one that is called like the table.
        """
        (named,) = made.read(table).select(F.input_file_name()).take(1)
        file = str(named[0]).removeprefix("file://").removeprefix("file:")
        return file[: file.index(f"/{table.table}/") + len(table.table) + 1]

    def test_deleted_and_replaced_rows_go_from_all_files(
        self, made: TableFormat, session: SparkSession, table: TableName
    ) -> None:
        if not isinstance(made, PurgesRows):
            return
        gone = Wanted.of(["Vandermeulen", "Oosterhuis"])
        made.create(table, COLUMNS, Layout(identity=["id"], sort_by=["word"]))
        with made.stage(table, made.state(table)) as stage:
            stage.append(frame_of(session, *FIRST, (4, "Vandermeulen", 4), (5, "Oosterhuis", 5)))
            stage.publish(report(1))
        with made.stage(table, made.state(table)) as stage:
            rows_to_delete = frame_of(session, (4, "", 0), (5, "", 0)).select("id")
            stage.merge(rows_to_delete, frame_of(session, (5, "five", 5)), ["id"])
            stage.publish(report(2))
        before, rows, folder = state_of(made, table), rows_of(made.read(table)), self.folder(made, table)
        assert rows == [*FIRST, (5, "five", 5)]
        assert search_files([folder], gone).found, "nothing is to be purged: the next lines prove nothing"
        assert list(made.purge(table, before=datetime.now(UTC))) == []
        assert search_files([folder], gone).found == []
        after = state_of(made, table)
        assert (after.bookmark, after.rows) == (before.bookmark, before.rows)
        assert rows_of(made.read(table)) == rows
        with made.stage(table, after) as stage:
            stage.merge(frame_of(session, (1, "", 0)).select("id"), frame_of(session, (6, "six", 6)), ["id"])
            stage.publish(report(3))
        assert rows_of(made.read(table), "id") == [(2,), (3,), (5,), (6,)]

    def test_a_stage_begun_before_a_purge_keeps_no_deleted_row(
        self, made: TableFormat, session: SparkSession, table: TableName
    ) -> None:
        if not isinstance(made, PurgesRows):
            return
        gone = Wanted.of(["Vandermeulen"])
        made.create(table, COLUMNS, Layout(identity=["id"]))
        with made.stage(table, made.state(table)) as stage:
            stage.append(frame_of(session, *FIRST, (4, "Vandermeulen", 4)))
            stage.publish(report(1))
        with made.stage(table, made.state(table)) as stage:
            stage.merge(frame_of(session, (4, "", 0)).select("id"), None, ["id"])
            stage.publish(report(2))
        with made.stage(table, made.state(table)) as other:
            other.append(frame_of(session, (5, "five", 5)))
            made.purge(table, before=datetime.now(UTC))
            assert search_files([self.folder(made, table)], gone).found == []
            with pytest.raises(CommitConflictError) if self.purge_ends_stages else nullcontext():
                other.publish(report(3))
        published = [] if self.purge_ends_stages else [(5, "five", 5)]
        assert rows_of(made.read(table)) == [*FIRST, *published]
        assert search_files([self.folder(made, table)], gone).found == []

    def test_published_snapshots_stay_readable_by_their_tags(
        self, made: TableFormat, session: SparkSession, table: TableName
    ) -> None:
        if not made.capabilities.keeps_published:
            assert not isinstance(made, KeepsPublished)
            return
        assert isinstance(made, KeepsPublished)
        assert isinstance(made, MaintainsTables)
        made.create(table, COLUMNS, Layout())
        states, rows = list[int](), list[list[tuple[object, ...]]]()
        for batch in (1, 2, 3, 4):
            with made.stage(table, made.state(table)) as stage:
                stage.append(frame_of(session, (batch, "row", batch)))
                states.append(stage.publish(report(batch)) or 0)
            rows.append(rows_of(made.read(table)))
        assert sorted(made.keep_published(table, states, 2).values()) == sorted(states[2:])
        assert made.keep_published(table, states, 2) == {}
        before = state_of(made, table)
        at_once = ExpireConfig.model_construct(older_than=timedelta(0), keep=1)
        settings = TableMaintenanceConfig().model_copy(update={"expire": at_once})
        for action in made.maintenance.plan(table, settings):
            made.maintenance.perform(table, action, settings)
        assert [made.holds_snapshot(table, state) for state in states] == [False, False, True, True]
        kept = session.sql(f"SELECT * FROM {made.rows_at(table, states[2])}")  # noqa: S608 - the format's own text
        assert rows_of(kept) == rows[2]
        after = state_of(made, table)
        assert (after.bookmark, after.rows) == (before.bookmark, before.rows)
