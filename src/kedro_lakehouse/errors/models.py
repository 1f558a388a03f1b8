"""Column search: what it needs and does not find."""

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003 - facts are typed at run time

from kedro_lakehouse.errors.base import TerminalError, then


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
    """The column search judged by its own evaluation set is worse than it must be."""

    code = "SEARCH_BELOW_THRESHOLD"
    measures: Sequence[str]
    summary = "Column search misses its thresholds: {measures}."
    advice = "See what changed of model, weights or profiles, then `kedro run --pipelines=column_eval`."
