"""Start queries, look how far they are, cancel them, or wait for one."""

from __future__ import annotations

import contextlib
import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, Protocol

from kedro_lakehouse.errors import did_you_mean
from kedro_lakehouse.grants.access import RoleAccess
from kedro_lakehouse.project import active_project, project_path
from kedro_lakehouse.query.errors import QueryError, QueryNotFoundError
from kedro_lakehouse.query.lake import QueriedLake
from kedro_lakehouse.query.local import Limits, LocalQueries, lives, lost, part_of
from kedro_lakehouse.query.results import FORMATS
from kedro_lakehouse.query.snapshots import Datasets
from kedro_lakehouse.query.states import QueryState, ResultFolder, now
from kedro_lakehouse.query.worker import Work

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kedro_lakehouse.project import Project
    from kedro_lakehouse.query.pins import Pin
    from kedro_lakehouse.query.results import Format

_MOST_CHARACTERS: Final = 100_000
_LONGEST_WAIT: Final = 0.2
_TIDIED: Final = 3600.0
"""Seconds after which old results are looked for again, when a query is started."""


class Engine(Protocol):
    """What runs queries, and knows how far each is."""

    def start(
        self,
        query: str,
        format: Format = "parquet",  # noqa: A002 - the word of those who ask
        output: str | None = None,
        role: str | None = None,
        *,
        snapshots: Mapping[str, str] | None = None,
    ) -> str:
        """Start a query; see ``start_query``."""

    def get(self, query: str) -> QueryState:
        """The state of a query; see ``get_query``."""

    def role_of(self, query: str) -> str | None:
        """The role that has started a query."""

    def cancel(self, query: str) -> QueryState:
        """End a query; see ``cancel``."""

    def wait(self, query: str, seconds: float | None = None) -> QueryState:
        """The state of a query when it has ended, or when the time is over."""


class Queries:
    """The queries of one project: those that any process has started with its folder of results."""

    def __init__(self, project: Project, datasets: Datasets | None = None) -> None:
        """Read what service.yml says of queries; nothing is started.

        Raises:
            ConfigurationError: Something is wrong in service.yml.
        """
        own = project.service.query
        self._project = project
        self.folder = ResultFolder(project_path(own.output))
        self.datasets = datasets or Datasets(project)
        limits = Limits(seconds=own.time.total_seconds(), memory=own.memory, at_once=own.at_once)
        self._local = LocalQueries(self.folder, limits)
        self._keep, self._tidied = own.keep, -_TIDIED

    def start(
        self,
        query: str,
        format: Format = "parquet",  # noqa: A002 - the word of those who ask
        output: str | None = None,
        role: str | None = None,
        *,
        snapshots: Mapping[str, str] | None = None,
    ) -> str:
        """Start a query; see ``start_query``."""
        if format not in FORMATS:
            problem = f"there is no format '{format}'.{did_you_mean(str(format), FORMATS)}"
            raise QueryError(problem=f"For a result {problem}", remedy=f"Use one of: {', '.join(FORMATS)}.")
        if not _can_be_written(query):
            problem = "The query holds a character that is none of Unicode's, or a null."
            raise QueryError(problem=problem, remedy="Remove it.")
        if len(query) > _MOST_CHARACTERS:
            problem = f"The query has more than {_MOST_CHARACTERS:,} characters."
            raise QueryError(problem=problem, remedy="Shorten it.")
        access = None if role is None else RoleAccess.of(self._project, role)
        pins = dict(self._pin(name, snapshot, access) for name, snapshot in (snapshots or {}).items())
        number = self.folder.new_id()
        state = QueryState(
            id=number, state="running", query=query, format=format, role=role, started_at=now(),
            location=str(self.folder.place(number, output, format, role)), snapshots=dict(snapshots or {}),
        )  # fmt: skip
        work = Work(
            spark_conf=self._project.spark_conf,
            lake=QueriedLake.of(self._project, access).at(pins),
            query=query,
            format=format,
            part=part_of(state),
            memory=self._project.service.query.memory,
        )
        self._local.start(state, work)
        self._tidy_up()
        return number

    def get(self, query: str) -> QueryState:
        """The state of a query; see ``get_query``."""
        state = self.folder.read(query)
        if state.has_ended or lives(self.folder, query):
            return state
        again = self.folder.read(query)  # it may have ended between the two looks
        return again if again.has_ended else lost(self.folder, again)

    def role_of(self, query: str) -> str | None:
        """The role that has started a query.

        Raises:
            QueryNotFoundError: There is none of that id.
        """
        return self.folder.read(query).role

    def cancel(self, query: str) -> QueryState:
        """End a query; see ``cancel``."""
        if not self.get(query).has_ended:
            self.folder.ask_to_cancel(query)
            self.wait(query, 2.0)
        return self.get(query)

    def wait(self, query: str, seconds: float | None = None) -> QueryState:
        """The state of a query when it has ended, or when the time is over."""
        self._local.wait(query, seconds)
        ended = threading.Event()
        waited = 0.0
        while not (state := self.get(query)).has_ended and (seconds is None or waited < seconds):
            ended.wait(_LONGEST_WAIT)  # another process has started it
            waited += _LONGEST_WAIT
        return state

    def _tidy_up(self) -> None:
        """Remove results that are older than service.yml keeps them, once an hour at most."""
        if self._keep is None or time.monotonic() - self._tidied < _TIDIED:
            return
        self._tidied = time.monotonic()
        for query in self.folder.written_before(datetime.now(UTC) - self._keep):
            with contextlib.suppress(QueryNotFoundError):  # another process was faster
                state = self.get(query)
                if state.has_ended:
                    self.folder.forget(state)

    def _pin(self, dataset: str, snapshot: str, access: RoleAccess | None) -> tuple[str, Pin]:
        """The stored table of a dataset, and its pin; an unknown dataset is refused as one not granted."""
        names = {str(name): name for name in self._project.declarations.tables}
        name = names.get(dataset)
        if name is None or not (access is None or (name in access.tables and access.tables[name].reads)):
            raise QueryError(
                problem=f"There is no dataset '{dataset}' of which a snapshot could be read.",
                remedy="Name a dataset that `GET /v1/datasets` lists.",
            )
        return str(self.datasets.stored(name)), self.datasets.pin(name, snapshot)


def _can_be_written(text: str) -> bool:
    return "\0" not in text and not any("\ud800" <= one <= "\udfff" for one in text)


def engine_of(project: Project, datasets: Datasets | None = None) -> Engine:
    """What runs the queries of a project, as service.yml says."""
    if project.service.query.engine == "athena":
        from kedro_lakehouse.query.athena import AthenaQueries

        return AthenaQueries(project)
    return Queries(project, datasets)


_engines: Final[dict[int, tuple[Project, Engine]]] = {}


def queries_of(project: Project | None = None) -> Engine:
    """The queries of a project, by default of the active one; made once a project."""
    found = project or active_project()
    if id(found) not in _engines:
        _engines[id(found)] = found, engine_of(found)
    return _engines[id(found)][1]


def start_query(
    query: str,
    format: Format = "parquet",  # noqa: A002 - the word of those who ask
    output: str | None = None,
    role: str | None = None,
    *,
    snapshots: Mapping[str, str] | None = None,
) -> str:
    """Start a query in a process of its own, and return its id.

    Args:
        query: One SELECT, WITH, DESCRIBE or SUMMARIZE in DuckDB's SQL.
        format: csv, json (one object a line) or parquet.
        output: The result's name below the folder of results, without its ending; default: the id.
        role: A role of grants.yml: the query sees what the role may see. Default: everything.
        snapshots: For some of the tables, the published snapshot that is read, by its id.

    Raises:
        QueryError: Nothing can be asked so.
        QueryOutputError: The output lies outside of the folder of results, or another result is there.
        SnapshotNotFoundError: A dataset has no such snapshot.
        SnapshotExpiredError: It has expired.
        TooManyQueriesError: As many queries run as may run at one time.
    """
    return queries_of().start(query, format, output, role, snapshots=snapshots)


def get_query(query: str) -> QueryState:
    """The state of a query by its id, whichever process has started it.

    Raises:
        QueryNotFoundError: There is none of that id.
    """
    return queries_of().get(query)


def cancel(query: str) -> QueryState:
    """End a query within two seconds, so that no file of it stays; one that has ended is left as it is.

    Raises:
        QueryNotFoundError: There is none of that id.
    """
    return queries_of().cancel(query)


def run(
    query: str,
    format: Format = "parquet",  # noqa: A002 - the word of those who ask
    output: str | None = None,
    role: str | None = None,
    *,
    snapshots: Mapping[str, str] | None = None,
) -> QueryState:
    """Start a query as ``start_query`` does, and wait for its end; the state says how it ended."""
    own = queries_of()
    return own.wait(own.start(query, format, output, role, snapshots=snapshots))
