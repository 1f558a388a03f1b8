"""What must be true of the commits of every table format."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from kedro_lakehouse.errors import CommitConflictError, CommitUnknownError
from kedro_lakehouse.formats.base import Layout
from kedro_lakehouse.testing.making import MadeFormat
from kedro_lakehouse.testing.samples import (
    COLUMNS,
    FIRST,
    frame_of,
    report,
    rows_of,
    spark_types,
    state_of,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kedro_lakehouse.formats.base import TableFormat
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.testing.making import Lose, Lost, MakeFormat


class CommitContract(MadeFormat):
    """Rows and bookmark are published together or not at all, whoever else writes and whatever gets lost."""

    def test_a_new_table_is_empty_and_has_no_bookmark(self, made: TableFormat, table: TableName) -> None:
        assert (made.state(table), made.uuid(table)) == (None, None)
        made.create(table, COLUMNS, Layout())
        made.create(table, COLUMNS, Layout())
        state = state_of(made, table)
        assert (state.rows, state.batch, state.bookmark) == (0, 0, None)
        assert spark_types(state.columns) == spark_types(COLUMNS)
        assert rows_of(made.read(table)) == []

    def test_rows_and_bookmark_are_published_together(
        self, made: TableFormat, session: SparkSession, filled: TableName
    ) -> None:
        state = state_of(made, filled)
        assert (state.rows, state.batch, rows_of(made.read(filled))) == (3, 1, sorted(FIRST, key=repr))
        assert state.bookmark is not None
        assert state.bookmark.counts == {"inserted": 1}
        assert state.properties["kedro_lakehouse.made_for"] == "contract"
        with made.stage(filled, state) as stage:
            stage.append(frame_of(session, (4, "four", 4)))
            assert (stage.is_open, stage.has_new_rows, stage.rows()) == (True, True, 4)
            assert rows_of(stage.appended(), "id") == [(4,)]
            assert rows_of(stage.staged(), "id") == [(1,), (2,), (3,), (4,)]
            assert (state_of(made, filled).batch, made.read(filled).count()) == (1, 3)
            reported = report(2)
            snapshot = stage.publish(reported)
        state = state_of(made, filled)
        assert (state.bookmark, state.rows, state.snapshot_id) == (reported, 4, snapshot)

    def test_what_is_not_published_leaves_nothing(
        self, made: TableFormat, session: SparkSession, filled: TableName
    ) -> None:
        with pytest.raises(ZeroDivisionError), made.stage(filled, made.state(filled)) as stage:
            stage.append(frame_of(session, (4, "four", 4)))
            raise ZeroDivisionError
        state = state_of(made, filled)
        assert (state.rows, state.batch, list(state.branches)) == (3, 1, [])
        with made.stage(filled, state) as stage:
            stage.append(frame_of(session, (5, "five", 5)))
            stage.drop()
            assert not stage.is_open
            stage.append(frame_of(session, (6, "six", 6)))
            stage.publish(report(2))
        assert rows_of(made.read(filled), "id") == [(1,), (2,), (3,), (6,)]

    def test_a_bookmark_moves_alone_and_properties_stay(
        self, made: TableFormat, session: SparkSession, filled: TableName
    ) -> None:
        with made.stage(filled, made.state(filled)) as stage:
            stage.publish(report(2), properties={"kedro_lakehouse.horizon": "2026-01-01"})
        with made.stage(filled, made.state(filled)) as stage:
            stage.append(frame_of(session, (4, "four", 4)))
            stage.publish(report(3))
        state = state_of(made, filled)
        assert (state.batch, state.rows) == (3, 4)
        assert state.properties["kedro_lakehouse.horizon"] == "2026-01-01"

    def test_of_two_stages_on_one_state_one_is_published(
        self, make_format: MakeFormat, session: SparkSession, filled: TableName
    ) -> None:
        first, second = make_format("run1"), make_format("run2")
        state = state_of(first, filled)
        with ExitStack() as stack:
            stages = [stack.enter_context(one.stage(filled, state)) for one in (first, second)]
            for number, stage in enumerate(stages, 10):
                stage.append(frame_of(session, (number, "raced", number)))
            stages[0].publish(report(2))
            with pytest.raises(CommitConflictError):
                stages[1].publish(report(2), without=["word"] if first.capabilities.drop_columns else [])
            stages[1].drop()
        assert first.read(filled).columns == list(COLUMNS)
        assert rows_of(first.read(filled), "id") == [(1,), (10,), (2,), (3,)]
        assert state_of(second, filled).rows == len(FIRST) + 1

    @pytest.mark.parametrize("kinds", [("rows", "rows"), ("bookmark", "rows"), ("rows", "bookmark")])
    def test_a_stage_that_is_written_after_another_commit_is_refused(
        self, make_format: MakeFormat, session: SparkSession, filled: TableName, kinds: tuple[str, str]
    ) -> None:
        first, second = make_format("run1"), make_format("run2")
        state = state_of(first, filled)
        with (
            first.stage(filled, state) as one,
            pytest.raises(CommitConflictError),
            second.stage(filled, state) as other,
        ):
            if kinds[0] == "rows":
                one.append(frame_of(session, (10, "raced", 10)))
            reported = report(2)
            one.publish(reported)
            if kinds[1] == "rows":
                other.append(frame_of(session, (11, "raced", 11)))
            other.publish(report(2))
        expected = [(1,), (10,), (2,), (3,)] if kinds[0] == "rows" else [(1,), (2,), (3,)]
        assert rows_of(first.read(filled), "id") == expected
        assert state_of(second, filled).bookmark == reported

    def test_two_runs_that_make_a_table_race_as_two_commits_do(
        self, make_format: MakeFormat, session: SparkSession, table: TableName
    ) -> None:
        runs = [make_format("run1"), make_format("run2")]
        for made in runs:
            made.create(table, COLUMNS, Layout())
        first, second = ((made, state_of(made, table)) for made in runs)
        with first[0].stage(table, first[1]) as stage:
            stage.append(frame_of(session, *FIRST))
            stage.publish(report(1))
        with pytest.raises(CommitConflictError), second[0].stage(table, second[1]) as stage:
            stage.append(frame_of(session, *FIRST))
            stage.publish(report(1))
        assert rows_of(runs[0].read(table)) == sorted(FIRST, key=repr)

    def test_a_stage_on_a_table_that_was_made_again_is_refused(
        self, make_format: MakeFormat, session: SparkSession, filled: TableName
    ) -> None:
        first, second = make_format("run1"), make_format("run2")
        state = state_of(first, filled)
        second.drop(filled)
        second.create(filled, COLUMNS, Layout())
        with second.stage(filled, second.state(filled)) as stage:
            stage.append(frame_of(session, *FIRST))
            stage.publish(report(1))
        with pytest.raises(CommitConflictError), first.stage(filled, state) as stage:
            stage.append(frame_of(session, (9, "lost", 9)))
            stage.publish(report(2))
        assert rows_of(second.read(filled)) == sorted(FIRST, key=repr)

    def test_the_stage_of_a_run_at_work_is_left_alone(
        self, make_format: MakeFormat, session: SparkSession, filled: TableName
    ) -> None:
        first, second = make_format("run1"), make_format("run2")
        with first.stage(filled, first.state(filled)) as stage:
            stage.append(frame_of(session, (4, "four", 4)))
            with second.stage(filled, second.state(filled)) as other:
                other.append(frame_of(session, (5, "five", 5)))
                other.drop()
            with second.stage(filled, second.state(filled)) as other:
                other.append(frame_of(session, (6, "six", 6)))
                stage.publish(report(2))
                other.drop()
        assert rows_of(first.read(filled), "id") == [(1,), (2,), (3,), (4,)]

    def test_what_dead_runs_staged_goes_with_the_next_commit(
        self, make_format: MakeFormat, session: SparkSession, filled: TableName
    ) -> None:
        dead = make_format("run1").stage(filled, make_format("run1").state(filled))
        dead.__enter__().append(frame_of(session, (4, "four", 4)))  # and is killed
        made = make_format("run2")
        with made.stage(filled, made.state(filled)) as stage:
            stage.append(frame_of(session, (5, "five", 5)))
            stage.publish(report(2))
        assert list(state_of(made, filled).branches) == []
        assert rows_of(made.read(filled), "id") == [(1,), (2,), (3,), (5,)]

    def test_each_published_state_has_a_version_of_its_own(
        self, made: TableFormat, session: SparkSession, filled: TableName
    ) -> None:
        versions = [state_of(made, filled).version]
        for batch in (2, 3):
            with made.stage(filled, made.state(filled)) as stage:
                if batch == 2:
                    stage.append(frame_of(session, (4, "four", 4)))
                stage.publish(report(batch))
            assert state_of(made, filled).version == state_of(made, filled).version
            versions.append(state_of(made, filled).version)
        assert len({*versions, ""}) == 4

    @pytest.mark.parametrize("lost", ["request", "answer"])
    def test_an_outcome_that_nobody_tells_is_looked_up(
        self, make_format: MakeFormat, session: SparkSession, filled: TableName, lose: Lose, lost: Lost
    ) -> None:
        first, second = make_format("run1"), make_format("run2")
        reported, outcome = report(2), "published"
        try:
            with first.stage(filled, first.state(filled)) as stage:
                stage.append(frame_of(session, (4, "four", 4)))
                with lose(lost):
                    stage.publish(reported)
        except CommitUnknownError:
            outcome = "unknown"
        except Exception:  # noqa: BLE001 - whatever else is raised says that nothing was published
            outcome = "failed"
        state = state_of(second, filled)
        is_held = state.bookmark == reported
        assert is_held == (lost == "answer")
        assert outcome in ("unknown", "published" if is_held else "failed")
        with second.stage(filled, state) as stage:
            stage.append(frame_of(session, (5, "five", 5)))
            stage.publish(report(3))
        state, expected = state_of(second, filled), [1, 2, 3, 4, 5] if is_held else [1, 2, 3, 5]
        assert rows_of(second.read(filled), "id") == [(id_,) for id_ in expected]
        assert (state.batch, state.rows, list(state.branches)) == (3, len(expected), [])
