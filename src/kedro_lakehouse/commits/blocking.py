"""Blocking expectations: a staged commit is validated before any reader can see its rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import BATCH, ORDER, all_of, column
from kedro_lakehouse.changes.history import IS_CURRENT, ORDER_LAST
from kedro_lakehouse.errors import ExpectationFailedError
from kedro_lakehouse.ops.store import PUBLISHED, QUALITY_RESULTS
from kedro_lakehouse.quality.answers import ANSWERED, OF_ROWS, answer, failing_rows
from kedro_lakehouse.quality.conditions import require_columns
from kedro_lakehouse.quality.engine import answer_by_engine
from kedro_lakehouse.quality.results import Result, of_number

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.contract import TableContract
    from kedro_lakehouse.changes.plan import Kind
    from kedro_lakehouse.config.expectations import ExpectationConfig
    from kedro_lakehouse.formats.base import Stage
    from kedro_lakehouse.lake_table import LakeTable


@dataclass(frozen=True)
class _Frames:
    """The frames to validate: the rows that the commit writes, and the whole table as staged."""

    touched: DataFrame | None
    staged: DataFrame

    def of(self, expectation: ExpectationConfig) -> DataFrame:
        """The frame that an expectation applies to."""
        return self.staged if expectation.scope == "table" or self.touched is None else self.touched


def present_rows(rows: DataFrame, kind: Kind) -> DataFrame:
    """The rows that expectations apply to: all rows of a current table, the current rows of a history."""
    return rows if kind == "current" else rows.where(column(IS_CURRENT))


def validate_stage(table: LakeTable, kind: Kind, stage: Stage, events: DataFrame, *, before: int) -> None:
    """Validate a staged commit against the table's blocking expectations; without any, nothing is read.

    The current and the history table have the same present rows, so both get the same result.

    Args:
        events: The events that the commit applies; they show which batch the failing rows come from.
        before: The row count of the published table.

    Raises:
        ExpectationFailedError: Rows fail; the results are in ``lake.ops.quality_results``.
        MissingColumnError: An expectation names a column that the table does not have.
    """
    blocking = [e for e in table.config.expectations if e.severity == "block"]
    if not blocking or not stage.is_open:
        return
    staged = present_rows(stage.staged(), kind)
    touched = present_rows(stage.appended(), kind) if stage.has_new_rows else None
    require_columns(table.name, blocking, staged.columns)
    by_rows = [e for e in blocking if e.scope == "rows"]
    results = answer(by_rows, touched, staged if before else None) if touched is not None else []
    whole = [e for e in blocking if e.scope == "table"]
    results += answer([e for e in whole if e.nature in ANSWERED], staged)
    results += answer_by_engine([e for e in whole if e.nature == "engine"], staged)
    results += [_drift(e, staged, table, kind) for e in whole if e.nature == "drift" and before]
    failed = [r for r in results if not r.success]
    if not failed:
        return
    contract = table.contract
    at = _failing_batch(failed, events, _Frames(touched, staged), contract, kind)
    _record(table, kind, at, failed)
    raise ExpectationFailedError(
        table=table.name,
        batch=at,
        rows=sum(r.unexpected or 0 for r in failed),
        expectations=[r.expectation.title for r in failed],
    )


def _drift(expectation: ExpectationConfig, staged: DataFrame, table: LakeTable, kind: Kind) -> Result:
    """The fraction by which the commit changes the number of present rows."""
    published = present_rows(table.read(kind), kind).count()
    change = (staged.count() - published) / published if published else 0.0
    return of_number(expectation, change, "aggregation")


def _failing_batch(
    failed: list[Result], events: DataFrame, frames: _Frames, contract: TableContract, kind: Kind
) -> int:
    """The first pending batch with an event behind a failing row; if no row is to blame, the last one."""
    ordered = events.select(BATCH, ORDER, *[column(k) for k in contract.keys])
    last = ORDER if kind == "current" else ORDER_LAST
    keys = (column(key).eqNullSafe(column(f"__key{i}")) for i, key in enumerate(contract.keys))
    same = all_of([column(ORDER).eqNullSafe(column("__at")), *keys])
    batches = []
    for e in (r.expectation for r in failed if r.expectation.nature in OF_ROWS):
        failing = failing_rows(e, frames.of(e), frames.staged).select(
            column(last).alias("__at"), *[column(k).alias(f"__key{i}") for i, k in enumerate(contract.keys)]
        )
        batches.append(ordered.join(failing, same, "left_semi").agg(F.min(BATCH)).collect()[0][0])
    known = [b for b in batches if b is not None]
    return int(min(known) if known else events.agg(F.max(BATCH)).collect()[0][0])


def open_refusals(table: LakeTable) -> list[dict[str, Any]]:
    """The failed validations after which no commit of that target was published; from metadata."""
    committed: dict[str, datetime] = {}
    for kind in table.targets:
        state = table.state(kind)
        if state is not None and state.bookmark is not None:
            committed[kind] = datetime.fromisoformat(state.bookmark.committed_at)
    never = datetime.min.replace(tzinfo=UTC)
    rows = table.ops.read(QUALITY_RESULTS, of_table=str(table))
    refused = [r for r in rows if r["stage"] != PUBLISHED]
    return [r for r in refused if r["judged_at"] > committed.get(r["stage"], never)]


def _record(table: LakeTable, kind: Kind, batch: int, failed: list[Result]) -> None:
    """Write failed results to ``lake.ops.quality_results``, unless the same ones already block the table."""
    rows = [
        r.row() | {"suite": str(table), "table": str(table), "stage": kind, "batch": batch} for r in failed
    ]
    same = ("stage", "batch", "expectation", "unexpected")
    known = {tuple(r[k] for k in same) for r in open_refusals(table)}
    facts: dict[str, Any] = {"run_id": table.run_id, "judged_at": datetime.now(UTC)}
    if new := [r | facts for r in rows if tuple(r[k] for k in same) not in known]:
        table.ops.append(QUALITY_RESULTS, new)
