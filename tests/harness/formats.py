"""Table formats made by hand, as a project makes them, for tests of their own contract."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from pyspark.sql import types as T

from harness.project import TemporaryProject
from kedro_lakehouse.errors import CommitConflictError
from kedro_lakehouse.formats.base import FormatContext, Layout
from kedro_lakehouse.project import Project
from kedro_lakehouse.testing import TableFormatContract, cut_off, report
from kedro_lakehouse.testing.samples import COLUMNS, frame_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from kedro_lakehouse.formats.base import Stage


def context_of(project: Project, run_id: str) -> FormatContext:
    """What a project gives its formats, for the run of this name."""
    return FormatContext(
        session=lambda: project.session, catalog=project.catalog, lakehouse=project.lakehouse,
        run_id=run_id, correlation_id=run_id, spark_conf=project.spark_conf,
    )  # fmt: skip


class InOneSession(TableFormatContract):
    """The contract of a format that is made by a class of the project, on a lakehouse of the test's own."""

    made_by: ClassVar[Any] = None

    @pytest.fixture(scope="class")
    @classmethod
    def context(cls, tmp_path_factory: pytest.TempPathFactory) -> FormatContext:
        """What the format gets, of an empty project."""
        temporary = TemporaryProject.make(tmp_path_factory.mktemp("formats") / "project", {}, {})
        return context_of(Project.load(str(temporary.path / "conf"), None), "run1")

    @pytest.fixture(scope="class")
    @classmethod
    def session(cls, context: FormatContext) -> SparkSession:
        return context.session()

    @pytest.fixture(scope="class")
    @classmethod
    def make_format(cls, context: FormatContext) -> Callable[[str], Any]:
        return lambda run_id: cls.made_by(dataclasses.replace(context, run_id=run_id))


class LooksUp(InOneSession):
    """The contract of a format that looks a failed commit up before it says what became of it."""

    commits: ClassVar[tuple[Any, str]]
    looks_up: ClassVar[tuple[Any, str]]
    error: ClassVar[Exception]
    """What is raised where no answer comes."""

    @pytest.fixture
    def no_turns(self) -> None:
        """Let two commits to one table overlap; nothing is to do where they need no turns."""

    @pytest.fixture
    def lose(self) -> Any:
        return lambda lost: cut_off(*self.commits, lost, self.error, self.looks_up)

    def test_a_commit_that_failed_is_looked_up_at_once(self, made, session, filled) -> None:
        with made.stage(filled, made.state(filled)) as stage, cut_off(*self.commits, "answer", self.error):
            stage.append(frame_of(session, (4, "four", 4)))
            assert stage.publish(report(2)) == made.state(filled).snapshot_id
        with made.stage(filled, made.state(filled)) as stage, cut_off(*self.commits, "request", self.error):
            stage.append(frame_of(session, (5, "five", 5)))
            with pytest.raises(type(self.error), match="no answer"):
                stage.publish(report(3))
        assert (made.state(filled).batch, made.read(filled).count()) == (2, 4)

    def test_a_published_commit_is_found_behind_the_next(
        self, make_format, session, filled, monkeypatch, no_turns
    ) -> None:
        ours, other = make_format("ours"), make_format("other")
        owner, name = self.commits
        work = getattr(owner, name)

        def overtaken(*args: object, **options: object) -> None:
            work(*args, **options)
            monkeypatch.setattr(owner, name, work)
            with other.stage(filled, other.state(filled)) as stage:
                stage.publish(report(3))
            raise self.error

        with ours.stage(filled, ours.state(filled)) as stage:
            stage.append(frame_of(session, (4, "four", 4)))
            monkeypatch.setattr(owner, name, overtaken)
            published = stage.publish(report(2))
        told = [(one.batch, at) for one, at in ours.commits(filled)]
        assert told[1:2] == [(2, published)]
        assert (ours.state(filled).batch, ours.state(filled).rows) == (3, 4)

    def test_rows_that_another_commit_removed_are_a_lost_race(self, make_format, session, filled) -> None:
        ours, other = make_format("ours"), make_format("other")
        state = ours.state(filled)

        def read_too_late(stage: Stage) -> None:
            stage.append(frame_of(session, (4, "four", 4)))
            with other.stage(filled, state) as faster:
                faster.publish(report(2))
            stage.appended().collect()

        def count_too_late(stage: Stage) -> None:
            stage.append(frame_of(session, (4, "four", 4)))
            stage.expect(9)

        for fail in (read_too_late, count_too_late):
            with pytest.raises(CommitConflictError), ours.stage(filled, state) as stage:
                fail(stage)
        assert (ours.state(filled).batch, ours.state(filled).rows) == (2, 3)

    def test_what_a_block_leaves_unpublished_is_dropped(self, make_format, context, session, filled) -> None:
        folder = Path(context.lakehouse) / "warehouse" / filled.namespace
        made = make_format("ours")
        with made.stage(filled, made.state(filled)) as stage:
            stage.append(frame_of(session, (4, "four", 4)))
            (staged,) = folder.glob(f".stage_{filled.table}.ours.*")
            assert any(staged.iterdir())
        assert list(folder.glob(f".stage_{filled.table}.*")) == []

    def test_commits_that_the_table_keeps_are_told_with_their_snapshots(self, made, session, table) -> None:
        assert list(made.commits(table)) == []
        made.create(table, COLUMNS, Layout())
        assert list(made.commits(table)) == []
        told = []
        for batch in (1, 2, 3):
            with made.stage(table, made.state(table)) as stage:
                stage.append(frame_of(session, (batch, "row", batch)))
                said = report(batch)
                told.append((said, stage.publish(said)))
            if batch == 2:  # a property, and no batch
                with made.stage(table, made.state(table)) as stage:
                    stage.publish(said, properties={"kedro_lakehouse.horizon": "2026-01-01"})
        assert list(made.commits(table)) == told[::-1]
        assert next(made.commits(table)) == told[-1]

    def test_columns_that_another_writer_added_first_are_a_lost_race(self, make_format, filled) -> None:
        ours, other = make_format("ours"), make_format("other")
        state = ours.state(filled)
        other.evolve(filled, COLUMNS | {"theirs": T.StringType()}, state)
        with pytest.raises(CommitConflictError):
            ours.evolve(filled, COLUMNS | {"theirs": T.StringType()}, state)
        assert list(ours.state(filled).columns) == [*COLUMNS, "theirs"]
