"""Table formats made by hand, as a project makes them, for tests of their own contract."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, ClassVar

import pytest

from harness.project import TemporaryProject
from kedro_lakehouse.formats.base import FormatContext
from kedro_lakehouse.project import Project
from kedro_lakehouse.testing import TableFormatContract, cut_off, report
from kedro_lakehouse.testing.samples import frame_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession


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
