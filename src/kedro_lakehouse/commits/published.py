"""A published table, to be validated, and the results of its validation."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

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
    """Takes the place of the tables to validate if none has changed since its last validation."""

    HERE = "nothing to validate"


@dataclass(frozen=True, kw_only=True)
class Published:
    """A table as its readers see it; without a current table, the current rows of its history.

    ``change`` is the fraction by which the last commit changed the row count; None if that commit created
    the table, or if metadata does not show it.
    """

    name: str
    rows: DataFrame
    snapshot: int | None
    batch: int
    change: float | None


@dataclass(frozen=True, kw_only=True)
class Validation:
    """The results of a suite of expectations, and the snapshots that they describe."""

    snapshots: str
    batch: int | None
    results: Sequence[Result]


def snapshot_of(table: LakeTable) -> int | None:
    """The snapshot that readers of a table see; None where nothing was committed yet."""
    kind: Kind = "current" if table.config.current else "history"
    state = table.state(kind)
    return state.snapshot_id if state is not None else None


def published(table: LakeTable) -> Published | None:
    """The published state of a table, from metadata and as a lazy frame; None before its first commit."""
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
    """The titles of the expectations that a suite validates; freshness is validated in every run instead."""
    return frozenset(e.title for e in expectations if e.nature != "fresh")


def record_validation(environment: Environment, suite: str, judgement: Validation) -> None:
    """Store the results of a suite, and log which expectations failed."""
    rows = [
        r.row() | {"table": getattr(r.expectation, "table", suite), "batch": judgement.batch}
        for r in judgement.results
    ]
    environment.validations.record(suite, judgement.snapshots, rows)
    for result in judgement.results:
        if not result.success:
            of = f"{result.unexpected:,} of {result.elements:,} rows" if result.unexpected else "the table"
            logger.warning("%s: %s fail(s) %s", suite, of, result.expectation.title)
