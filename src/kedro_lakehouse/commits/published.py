"""A table as its readers see it, to be validated; and the results of its validation."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from kedro_lakehouse.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.plan import Kind
    from kedro_lakehouse.config.expectations import ExpectationConfig
    from kedro_lakehouse.environment import Environment
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.quality.results import Result

logger = logging.getLogger(__name__)


class NothingToValidate(Enum):
    """Stands where tables would stand if they had changed since they were judged."""

    HERE = "nothing to judge"


@dataclass(frozen=True, kw_only=True)
class Published:
    """A table as its readers see it; of one that keeps no current table the rows of its history that last.

    ``change`` is the fraction by which the last commit changed the number of rows; None where it made
    the table, or where metadata does not tell.
    """

    name: str
    rows: DataFrame
    snapshot: int | None
    batch: int
    change: float | None


@dataclass(frozen=True, kw_only=True)
class Validation:
    """The answers to a suite, and the snapshots that they are about."""

    snapshots: str
    batch: int | None
    results: Sequence[Result]


def snapshot_of(table: LakeTable) -> int | None:
    """The snapshot that readers of a table see; None where nothing was committed yet."""
    kind: Kind = "current" if table.config.current else "history"
    state = table.state(kind)
    return state.snapshot_id if state is not None else None


def published(table: LakeTable) -> Published | None:
    """The published state of a table, by metadata and as a lazy frame; None where it holds nothing yet."""
    from kedro_lakehouse.commits.blocking import present_rows

    kind: Kind = "current" if table.config.current else "history"
    state = table.state(kind)
    if state is None or state.bookmark is None:
        return None
    counts = state.bookmark.counts
    before = state.rows - counts.get("inserted", 0) + counts.get("deleted", 0)
    return Published(
        name=str(table),
        rows=present_rows(table.read(kind), kind),
        snapshot=state.snapshot_id,
        batch=state.batch,
        change=state.rows / before - 1 if kind == "current" and before > 0 else None,
    )


def titles_of(expectations: Iterable[ExpectationConfig]) -> frozenset[str]:
    """The expectations that the judgement of a suite answers: freshness is judged in every run instead."""
    return frozenset(e.title for e in expectations if e.nature != "fresh")


def record_validation(environment: Environment, suite: str, judgement: Validation) -> None:
    """Write the answers to a suite down, and tell which expectations failed."""
    rows = [
        r.row() | {"table": getattr(r.expectation, "table", suite), "batch": judgement.batch}
        for r in judgement.results
    ]
    environment.validations.record(suite, judgement.snapshots, rows)
    for result in judgement.results:
        if not result.success:
            of = f"{result.unexpected:,} of {result.elements:,} rows" if result.unexpected else "the table"
            logger.warning("%s: %s fail(s) %s", suite, of, result.expectation.title)


def read_only(what: str) -> UnsupportedError:
    """The error of who saves to a view."""
    return UnsupportedError(what=f"Saving to {what}.", remedy="Load it only.")
