"""What a query, or a snapshot that it names, can be refused for; each error has its code."""

from __future__ import annotations

from typing import ClassVar

from kedro_lakehouse.errors import TerminalError, TransientError


class QueryError(TerminalError):
    """A query cannot be answered."""

    code: ClassVar[str] = "QUERY"
    problem: str
    remedy: str

    def sentences(self) -> tuple[str, str]:
        """Return both facts."""
        return self.problem, self.remedy


class QueryNotFoundError(TerminalError):
    """No query of that id was started with this folder of results, or not for this role."""

    code = "QUERY_NOT_FOUND"
    query: str
    summary = "There is no query '{query}'."
    advice = "Use an id that starting a query returned; `service.query.output` names the folder of results."


class QueryOutputError(TerminalError):
    """The result would lie where it may not: outside of the folder of results, or over another one."""

    code = "QUERY_OUTPUT"
    output: str
    problem: str
    summary = "The output '{output}' {problem}."
    advice = "Give a relative name of letters, digits, '_', '-', '.' and '/', that no result has yet."


class QueryTooLongError(TerminalError):
    """A query was ended because it took longer than it may."""

    code = "QUERY_TOO_LONG"
    seconds: float
    summary = "The query was ended after {seconds} s."
    advice = "Ask for less, such as fewer snapshots, or raise `service.query.time` in service.yml."


class QueryMemoryError(TerminalError):
    """A query was ended because it needed more memory than it may have."""

    code = "QUERY_MEMORY"
    megabytes: int
    summary = "The query needs more than {megabytes} MiB of memory."
    advice = "Ask for fewer rows or columns, or raise `service.query.memory` in service.yml."


class QueryCancelledError(TerminalError):
    """A query was cancelled before it ended."""

    code = "QUERY_CANCELLED"
    query: str
    summary = "The query '{query}' was cancelled."
    advice = "Start it again if it is still wanted."


class QueryLostError(TransientError):
    """The process that ran a query is gone."""

    code = "QUERY_LOST"
    query: str
    summary = "The process of the query '{query}' ended without an answer."
    advice = "Start it again; no result was written."


class TooManyQueriesError(TransientError):
    """As many queries run as may run at one time."""

    code = "QUERIES_TOO_MANY"
    running: int
    summary = "{running} queries run, and more may not run at one time."
    advice = "Try again when one has ended, or raise `service.query.at_once` in service.yml."


class SnapshotNotFoundError(TerminalError):
    """A dataset has no such snapshot, and had none."""

    code = "SNAPSHOT_NOT_FOUND"
    dataset: str
    snapshot: str
    summary = "{dataset} has no snapshot '{snapshot}'."
    advice = "`GET /v1/datasets/{dataset}/snapshots` lists those that can be read."


class SnapshotExpiredError(TerminalError):
    """A snapshot was published, and its files have gone with the expiry of snapshots."""

    code = "SNAPSHOT_EXPIRED"
    dataset: str
    snapshot: str
    summary = "The snapshot '{snapshot}' of {dataset} has expired."
    advice = "Name a later one; `service.keep` in service.yml says how many stay."


class SnapshotErasedError(TerminalError):
    """A snapshot was published, and held rows of somebody who was erased since."""

    code = "SNAPSHOT_ERASED"
    dataset: str
    snapshot: str
    summary = "The snapshot '{snapshot}' of {dataset} went with an erasure."
    advice = "Name a later one: it lacks the rows that were erased, and those alone."
