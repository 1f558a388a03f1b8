"""Commits that failed, or whose outcome is unknown; erasures that are not done."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro_lakehouse.errors.base import TableError, TerminalError, TransientError, UnknownOutcomeError

if TYPE_CHECKING:
    from collections.abc import Sequence


class AuditFailedError(TableError):
    """A staged batch does not pass the audit; no reader has seen a row of it."""

    code = "AUDIT_FAILED"
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


class ErasureNotDoneError(TerminalError):
    """An erasure removed the rows of persons, and something is left that it cannot remove."""

    code = "ERASURE_NOT_DONE"
    table: object
    erasure: str
    found: int
    pending: Sequence[str]
    summary = (
        "Requests of {table}: the rows are erased, but files hold an erased person in {found} place(s). Left "
        "to do: {pending}."
    )
    advice = (
        "`kedro lakehouse erasures {erasure}` names the files and what is left. Remove what it names, then "
        "erase the same persons again: `kedro lakehouse erase`."
    )


class LeaseLostError(TransientError):
    """The lease that a run works under may be another run's by now; what it staged is not published."""

    code = "LEASE_LOST"
    table: object
    stage: str
    summary = "Table {table} ({stage}): the lease may have been taken over by another run."
    advice = (
        "Nothing of this attempt was published; a run plans again by itself. If it still fails: `kedro run`."
    )


class ClockBehindError(TransientError):
    """This machine's clock is behind a table's newest commit, whose format orders commits by their times."""

    code = "CLOCK_BEHIND"
    table: object
    newest: str
    now: str
    summary = "Table {table}: its newest commit is of {newest} UTC, and this machine's clock says {now}."
    advice = (
        "Nothing was written: a commit of an earlier time would not count. "
        "Set the clocks of all machines that write, then `kedro run` again."
    )


class CommitUnknownError(UnknownOutcomeError):
    """The reply to a commit was lost."""

    code = "COMMIT_UNKNOWN"
    table: object
    batch: int
    summary = "Table {table}, batch {batch}: the catalog did not say whether the commit happened."
    advice = "Nothing was cleaned up. `kedro run` again: it looks for the batch first."


class BookmarkGoneError(TableError):
    """The entry of a table's log that holds its bookmark was removed."""

    code = "BOOKMARK_GONE"
    number: int
    summary = "Table {table}: its log has lost the entry of commit {number}, and with it the bookmark."
    advice = (
        "Nothing was changed. Leave delta.enableExpiredLogCleanup off; restore the log, "
        "or give the table up by `kedro lakehouse drop` and run again."
    )


class NoSuchSnapshotError(TableError):
    """No state of a table that can still be read is the one asked for."""

    code = "NO_SUCH_SNAPSHOT"
    wanted: str
    known: Sequence[str]
    summary = "Table {table}: no state of {wanted} can be read any more, or ever was; there are: {known}."
    advice = "Choose one that `kedro lakehouse snapshots {table}` lists."
