"""Expectations that are not met, changes that were discovered, what a search or AWS does not give."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro_lakehouse.errors.base import (
    MAX_FACT,
    MAX_MESSAGE,
    TableError,
    TerminalError,
    counted,
    cut,
    then,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class ExpectationFailedError(TableError):
    """Staged rows fail an expectation that blocks; no reader has seen one of them."""

    code = "EXPECTATION_FAILED"
    batch: int
    rows: int
    expectations: Sequence[str]
    summary = "Table {table}, batch {batch}: {rows} row(s) fail the expectation {expectations}."
    advice = (
        "Nothing was published. Deliver correcting events (all pending batches are validated as one), or "
        "exclude the failing ones: `kedro lakehouse quarantine {table} --batch {batch}`."
    )

    def sentences(self) -> tuple[str, str]:
        """Return how many rows fail, unless it is the table as a whole."""
        _, advice = super().sentences()
        fail = "the table as a whole fails"
        if self.rows:
            fail = f"{counted(self.rows, 'row')} {'fails' if self.rows == 1 else 'fail'}"
        return f"Table {self.table}, batch {self.batch}: {fail} the expectation {self._named()}.", advice

    def _named(self) -> str:
        """As many expectations as fit, each whole; a first one that is too long is cut between words."""
        first, *others = (cut(name, MAX_MESSAGE) for name in self.expectations)
        if len(first) > MAX_FACT:
            first = first[:MAX_FACT].rpartition(" ")[0] + " …"
        shown = [first]
        while others and len(", ".join([*shown, others[0]])) <= MAX_FACT:
            shown.append(others.pop(0))
        return ", ".join(shown) + (f" and {len(others)} more" if others else "")


class NothingToWithdrawError(TableError):
    """A batch has no event that fails a blocking expectation."""

    code = "NOTHING_TO_WITHDRAW"
    batch: int
    blocked_by: Sequence[int]
    summary = "Table {table}: no event of batch {batch} fails; the failing batches are: {blocked_by}."
    advice = (
        "Nothing was excluded. Name a failing batch: `kedro lakehouse quarantine {table} --batch NUMBER`; or "
        "deliver correcting events, then `kedro run`."
    )


# Column search: what it needs and does not find.


class DiscoveryChangedError(TerminalError):
    """Datasets changed since the last look, and discovery.yml lets that fail the run."""

    code = "DISCOVERY_CHANGED"
    changes: Sequence[str]
    summary = "Datasets changed since the last look: {changes}."
    advice = (
        "`kedro lakehouse discovered` shows their versions. The changes are recorded: the next run compares "
        "with what lies there now."
    )


class ModelNotFoundError(TerminalError):
    """The files of an embedding model are not there, or are not the published ones."""

    code = "MODEL_NOT_FOUND"
    model: str
    problem: str
    remedy: str
    summary = "The model {model} cannot be used: {problem}."

    def sentences(self) -> tuple[str, str]:
        """Return the problem, and what to do before the next run."""
        what, _ = super().sentences()
        return what, then(self.remedy, "kedro run --pipelines=column_index")


class IndexEmptyError(TerminalError):
    """No column is indexed with the model."""

    code = "INDEX_EMPTY"
    model: str
    indexed: Sequence[str]
    summary = "No column is indexed with the model {model}; indexed with: {indexed}."
    advice = "Run `kedro run --pipelines=column_index`, or add files: `kedro lakehouse search --add PATH`."


class ColumnNotFoundError(TerminalError):
    """The column index has no such column or table."""

    code = "COLUMN_NOT_FOUND"
    column: str
    columns: int
    near: str = ""
    summary = "The index of {columns} columns has no '{column}'.{near}"
    advice = "Write namespace.table.column, as `kedro lakehouse search` prints it."


class SearchBelowThresholdError(TerminalError):
    """The column search, measured on its own evaluation set, is worse than it must be."""

    code = "SEARCH_BELOW_THRESHOLD"
    measures: Sequence[str]
    summary = "Column search misses its thresholds: {measures}."
    advice = (
        "Restore the former model or weights in parameters_column_index.yml, or lower the thresholds there; "
        "then `kedro run --pipelines=column_eval`."
    )


# What AWS does not give.


class AwsRefusedError(TerminalError):
    """A call to AWS failed; its error's code says why."""

    code = "AWS_REFUSED"
    what: str
    reason: str
    summary = "AWS does not give {what}: {reason}."
    advice = (
        "Look at its name, at AWS_REGION and at the role's policy, which `kedro lakehouse deploy` renders; "
        "then run the command again."
    )
