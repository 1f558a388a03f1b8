"""Fixtures of the table format contract: the format under test, and tables to test it on."""

from __future__ import annotations

import contextlib
import itertools
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import pytest

from kedro_lakehouse.formats.base import Layout
from kedro_lakehouse.names import TableName
from kedro_lakehouse.testing.samples import COLUMNS, FIRST, frame_of, report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from kedro_lakehouse.formats.base import TableFormat

    MakeFormat = Callable[[str], TableFormat]
    """Creates the format anew, for the run of this name; all of them share one lakehouse."""

    Lose = Callable[["Lost"], AbstractContextManager[None]]
    """Loses the request or the answer of a commit within the block, so that it gets no answer."""

Lost = Literal["request", "answer"]
"""What a commit loses: its request never reaches the store, or it is done there but the answer gets lost."""
numbers = itertools.count(1)
"""Numbers that make the names of tables distinct within one test run."""


@contextlib.contextmanager
def cut_off(
    owner: Any, name: str, lost: Lost, error: Exception, look_up: tuple[Any, str] | None = None
) -> Iterator[None]:
    """Make a function that commits raise an error before or after its work; then no lookup works either.

    Args:
        owner: The class or module of the function.
        name: The function's name.
        lost: ``answer``: the work is done before the error is raised; ``request``: it is not done.
        error: The error to raise.
        look_up: Class and name of the function that looks a commit up; it raises the error from then on.
    """
    work = getattr(owner, name)
    with pytest.MonkeyPatch.context() as patch:

        def fail(*_: object, **__: object) -> NoReturn:
            raise error

        def commit(*args: object, **options: object) -> NoReturn:
            if lost == "answer":
                work(*args, **options)
            if look_up:
                patch.setattr(*look_up, fail)
            raise error

        patch.setattr(owner, name, commit)
        yield


class MadeFormat:
    """The fixtures of the contract; a subclass provides the first three."""

    @pytest.fixture(scope="class")
    @classmethod
    def make_format(cls) -> MakeFormat:
        """Creates the format; a subclass provides it."""
        raise NotImplementedError

    @pytest.fixture(scope="class")
    @classmethod
    def session(cls) -> SparkSession:
        """The Spark session that the format uses; a subclass provides it."""
        raise NotImplementedError

    @pytest.fixture
    def lose(self) -> Lose:
        """Makes a commit get no answer; a subclass provides it."""
        raise NotImplementedError

    @pytest.fixture
    def made(self, make_format: MakeFormat) -> TableFormat:
        """The format, for one run."""
        return make_format("run1")

    @pytest.fixture
    def table(self) -> TableName:
        """A name that no table has had before."""
        return TableName("contract", f"table{next(numbers)}")

    @pytest.fixture
    def filled(self, made: TableFormat, session: SparkSession, table: TableName) -> TableName:
        """A table with three rows and the bookmark of batch 1."""
        layout = Layout(identity=["id"], properties={"kedro_lakehouse.made_for": "contract"})
        made.create(table, COLUMNS, layout)
        with made.stage(table, made.state(table)) as stage:
            stage.append(frame_of(session, *FIRST))
            stage.expect(len(FIRST))
            stage.publish(report(1))
        return table
