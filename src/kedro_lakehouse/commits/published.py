"""A published table, to be validated, and the results of its validation."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

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
    """A table as its readers see it: its current table or, of one without, the present rows of its history.

    - ``age``: the seconds since its last commit.
    - ``change``: the fraction by which the last commit changed the row count; None if that commit created
      the table, or if metadata does not show it.
    """

    table: LakeTable
    kind: Kind
    snapshot: int | None
    batch: int
    age: float
    change: float | None

    @property
    def name(self) -> str:
        """The table's name."""
        return str(self.table)

    @property
    def rows(self) -> DataFrame:
        """The published rows, as a lazy frame."""
        from kedro_lakehouse.commits.blocking import present_rows

        return present_rows(self.table.read(self.kind), self.kind)


@dataclass(frozen=True, kw_only=True)
class ValidationPlan:
    """The expectations of a suite, to be answered for tables at these snapshots.

    ``answer`` computes the results. It is called only if the suite, with the expectations of these titles,
    has no results for the snapshots yet.
    """

    snapshots: str
    batch: int | None
    titles: frozenset[str]
    answer: Callable[[], Sequence[Result]]


def published(table: LakeTable, kind: Kind | None = None) -> Published | None:
    """The published state of a table, or of one of its targets, from metadata; None before a first commit."""
    kind = kind or table.targets[0]
    state = table.state(kind)
    if state is None or state.bookmark is None:
        return None
    bookmark = state.bookmark
    before = state.rows - bookmark.counts.get("inserted", 0) + bookmark.counts.get("deleted", 0)
    return Published(
        table=table,
        kind=kind,
        snapshot=state.snapshot_id,
        batch=state.batch,
        age=(datetime.now(UTC) - datetime.fromisoformat(bookmark.committed_at)).total_seconds(),
        change=state.rows / before - 1 if kind == "current" and before > 0 else None,
    )


def snapshots_as_text(tables: Iterable[Published]) -> str:
    """The snapshots of several tables as one text."""
    return ", ".join(f"{t.name}={t.snapshot}" for t in sorted(tables, key=lambda t: t.name))


def titles_of(expectations: Iterable[ExpectationConfig]) -> frozenset[str]:
    """The titles of the expectations that a suite validates; freshness is validated in every run instead."""
    return frozenset(e.title for e in expectations if e.nature != "fresh")


def validate(environment: Environment, suite: str, plan: ValidationPlan) -> None:
    """Answer a suite's expectations, record the results and log which failed; once for these snapshots."""
    if environment.validations.is_validated(suite, plan.snapshots, plan.titles):
        return
    results = plan.answer()
    rows = [r.row() | {"table": getattr(r.expectation, "table", suite), "batch": plan.batch} for r in results]
    environment.validations.record(suite, plan.snapshots, rows)
    for result in results:
        if not result.success:
            of = f"{result.unexpected:,} of {result.elements:,} rows" if result.unexpected else "the table"
            logger.warning("%s: %s fail(s) %s", suite, of, result.expectation.title)
