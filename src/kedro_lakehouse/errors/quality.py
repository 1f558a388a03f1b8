"""Expectations that are not met."""

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003 - facts are typed at run time

from kedro_lakehouse.errors.base import TerminalError


class ExpectationFailedError(TerminalError):
    """Staged rows fail an expectation that blocks; no reader has seen one of them."""

    code = "EXPECTATION_FAILED"
    table: object
    batch: int
    rows: int
    expectations: Sequence[str]
    summary = "Table {table}, batch {batch}: {rows} row(s) fail the expectation {expectations}."
    advice = (
        "Nothing was published. Deliver correcting events (all pending batches are judged as one), or "
        "withdraw the failing ones: `kedro lakehouse quarantine {table} --batch {batch}`."
    )

    def sentences(self) -> tuple[str, str]:
        """Return how many rows fail, unless it is the table as a whole."""
        what, advice = super().sentences()
        if self.rows:
            return what, advice
        return what.replace("0 row(s) fail", "the table as a whole fails", 1), advice


class NothingToWithdrawError(TerminalError):
    """A batch has no event that fails a blocking expectation."""

    code = "NOTHING_TO_WITHDRAW"
    table: object
    batch: int
    blocked_by: Sequence[int]
    summary = "Table {table}: no event of batch {batch} fails; the failing batches are: {blocked_by}."
    advice = (
        "Nothing was withdrawn. Name a failing batch, deliver correcting events, or run `kedro run` again."
    )
