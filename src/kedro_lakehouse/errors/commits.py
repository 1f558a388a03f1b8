"""Commits that failed, or whose outcome nobody told."""

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003 - facts are typed at run time

from kedro_lakehouse.errors.base import TerminalError, TransientError, UnknownOutcomeError


class AuditFailedError(TerminalError):
    """A staged batch does not pass the audit; no reader has seen a row of it."""

    code = "AUDIT_FAILED"
    table: object
    batch: int
    check: str
    expected: object
    found: object
    summary = "Table {table}, batch {batch}: the check '{check}' expected {expected}, found {found}."
    advice = "Nothing was published. `kedro run` again; if it fails again, report it with the batch's files."


class CommitConflictError(TransientError):
    """Another writer won each time; nothing was written."""

    code = "COMMIT_CONFLICT"
    table: object
    attempts: int
    summary = "Table {table}: another writer committed first, in each of {attempts} attempt(s)."
    advice = "Nothing was written. `kedro run` again when the other writer is done."


class CommitUnknownError(UnknownOutcomeError):
    """The reply to a commit was lost."""

    code = "COMMIT_UNKNOWN"
    table: object
    batch: int
    summary = "Table {table}, batch {batch}: the catalog did not say whether the commit happened."
    advice = "Nothing was cleaned up. `kedro run` again: it looks for the batch first."


class NoSuchSnapshotError(TerminalError):
    """No state of a table that can still be read is the one asked for."""

    code = "NO_SUCH_SNAPSHOT"
    table: object
    wanted: str
    known: Sequence[str]
    summary = "Table {table}: no state of {wanted} can be read any more, or ever was; there are: {known}."
    advice = "Choose one that `kedro lakehouse snapshots {table}` lists."
