"""Batches and extracts that cannot be applied as they came."""

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003 - facts are typed at run time

from kedro_lakehouse.errors.base import LakehouseError, TerminalError, cut, listed


class SequenceTieError(TerminalError):
    """Different events of one key have the same order, and the table refuses that."""

    code = "SEQUENCE_TIE"
    table: object
    batch: int
    ties: int
    summary = "Table {table}, batch {batch}: {ties} event(s) share key and order with another one."
    advice = (
        "Nothing was written. Declare an 'order_by' that is total within a key, or another 'on_tie'; "
        "then `kedro run`."
    )


class TooManyInvalidError(TerminalError):
    """More of a batch is invalid than the table allows."""

    code = "TOO_MANY_INVALID"
    table: object
    batch: int
    invalid: int
    total: int
    limit: float
    summary = (
        "Table {table}, batch {batch}: {invalid} of {total} events are invalid; the limit is {limit} of them."
    )
    advice = (
        "Nothing was written. Correct the source, its types or its checks, or raise 'max_invalid_fraction'; "
        "then `kedro run`."
    )


class LedgerGapError(TerminalError):
    """The ledger of planned batches does not hold the plan of a published one."""

    code = "LEDGER_GAP"
    table: object
    batch: int
    summary = (
        "Table {table}: lake.ops.batch_ledger lacks the plan of the published batch {batch}, or one before."
    )
    advice = (
        "Nothing was written. Restore lake.ops.batch_ledger, or give the table up by "
        "`kedro lakehouse drop {table}` and run again."
    )


class SnapshotEmptyError(TerminalError):
    """An extract holds no row."""

    code = "SNAPSHOT_EMPTY"
    table: object
    extract: str
    summary = "Table {table}: the extract {extract} is empty."
    advice = (
        "It was not applied. Deliver it again, or set 'allow_empty_extract: true' if the source is empty; "
        "then `kedro run`."
    )


class SnapshotDeletesTooManyError(TerminalError):
    """An extract would delete more of the table than it may."""

    code = "SNAPSHOT_DELETES_TOO_MANY"
    table: object
    extract: str
    deletes: int
    rows: int
    limit: float
    summary = (
        "Table {table}: the extract {extract} lacks {deletes} of {rows} rows; the limit is {limit} of them."
    )
    advice = (
        "It was not applied. Check that it is complete, or raise 'max_delete_fraction'; then `kedro run`."
    )


class SnapshotOutOfOrderError(TerminalError):
    """An extract is older than the last accepted one."""

    code = "SNAPSHOT_OUT_OF_ORDER"
    table: object
    extract: str
    last: str
    summary = "Table {table}: the extract {extract} is older than the last accepted one, {last}."
    advice = (
        "It was not applied. Remove it from the landing folder, or declare a new table on all extracts; "
        "then `kedro run`."
    )


class RefusedExtractsError(TerminalError):
    """Some extracts of a table were refused; ``published`` tells that everything else of it went on."""

    code = "EXTRACTS_REFUSED"
    table: object
    errors: Sequence[LakehouseError]
    published: bool = True

    def sentences(self) -> tuple[str, str]:
        """Return each extract with the code that refused it."""
        named = [f"{cut(str(getattr(e, 'extract', '?')), 32)} ({e.code})" for e in self.errors]
        rest = (
            "All else of the table was published."
            if self.published
            else "Nothing of the table was published."
        )
        what = f"Table {self.table} refused {len(named)} extract(s): {listed(named)}."
        return what, f"{rest} Deliver them again, or change the guard that refused them; then `kedro run`."


class BatchContentChangedError(TerminalError):
    """A batch number comes again with other content."""

    code = "BATCH_CONTENT_CHANGED"
    table: object
    batch: int
    detail: str
    summary = "Table {table}, batch {batch} is not what it was ({detail})."
    advice = (
        "Nothing was written. Restore the batch's files as they were, deliver changed data as new files; "
        "then `kedro run`."
    )


class BatchNotFoundError(TerminalError):
    """A table has no batch of this number."""

    code = "BATCH_NOT_FOUND"
    table: object
    batch: int
    last: int

    def sentences(self) -> tuple[str, str]:
        """Return the batch, and those that there are."""
        there = f"it has the batches 1 to {self.last}" if self.last else "it has none yet"
        advice = "`kedro lakehouse tables` shows where each table stands."
        return f"Table {self.table} has no batch {self.batch}; {there}.", advice
