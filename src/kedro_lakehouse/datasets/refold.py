"""Fold a current or history table again from the whole record: one commit in the place of all its rows."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from time import perf_counter
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.changes.contract import TableContract
from kedro_lakehouse.changes.events import BATCH, column, columns, value_columns
from kedro_lakehouse.changes.plan import first_rows
from kedro_lakehouse.datasets.audit import refuse_doubled_keys
from kedro_lakehouse.datasets.blocking import judge_stage
from kedro_lakehouse.datasets.drift import made_for, refuse_drift
from kedro_lakehouse.datasets.observed import counted
from kedro_lakehouse.datasets.publish import acknowledge
from kedro_lakehouse.datasets.withdrawn import accepted_events
from kedro_lakehouse.formats.base import Layout, enter_phase
from kedro_lakehouse.ops.report import CommitReport, now

if TYPE_CHECKING:
    from kedro_lakehouse.changes.plan import Kind
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.formats.base import Stage, TableState
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project

logger = logging.getLogger(__name__)

REFOLD: Final = "kedro_lakehouse.refold"
"""Property of ``_changes``: the batch that took events out of the record; targets before it fold again."""

FOLDED_AT: Final = "kedro_lakehouse.folded_at"
"""Property of a target that was folded again: its states from before then are not gone back to."""


def declares(table: TableConfig, name: str) -> bool:
    """Tell whether a declaration keeps a column, by the column's name in the table."""
    chosen = table.columns
    if chosen is None or name in table.keys:
        return True
    if chosen.include is not None:
        return name in chosen.include
    return name not in (chosen.exclude or ())


def must_refold(project: Project, name: TableName, kind: Kind) -> bool:
    """Tell whether events that a target has applied have left the record since."""
    record = project.format_of(name).state(name.with_suffix("changes"))
    mark = int(record.properties.get(REFOLD, 0)) if record else 0
    if not mark:
        return False
    target = project.format_of(name).state(name.with_suffix(kind))
    return target is not None and 0 < target.batch < mark


def refold(
    project: Project, name: TableName, kind: Kind, *, upto: int | None = None, declared_anew: bool = False
) -> None:
    """Replace all rows of a target by the fold of the record, under the present declaration.

    Args:
        upto: The last batch to fold, and the new bookmark; default: the target keeps its own.
        declared_anew: Whether the declaration may be another than the one the target was made for.

    Raises:
        TrackHistoryDriftError: The declaration is another one, and may not be.
        AuditFailedError: What was staged is not one row a key; nothing was published.
        ExpectationFailedError: Staged rows fail an expectation that blocks; nothing was published.
        CommitConflictError: Another writer was faster; nothing was published.
    """
    begun, since = perf_counter(), now()
    lake, table = project.format_of(name), project.table(name)
    contract, target = TableContract.of(name, table), name.with_suffix(kind)
    with project.lease(name, kind):
        state = lake.state(target)
        if state is None:
            return
        batch = state.batch if upto is None else upto
        events = accepted_events(project, name).where(column(BATCH) <= batch)
        gone = [c for c in value_columns(events) if not declares(table, c)]
        rows = first_rows(kind, events.drop(*columns(gone)), contract, truncates=True)
        wanted = {f.name: f.dataType for f in rows.schema.fields}
        if not declared_anew:
            refuse_drift(target, state, contract, wanted, kind)
        lake.evolve(target, wanted, state)
        properties = made_for(contract, kind) | dict(table.properties)
        layout = Layout(sort_by=table.sort_by, properties=properties)
        report = state.bookmark if batch == state.batch and state.bookmark else None
        with ExitStack() as kept, lake.stage(target, state) as stage:
            rows, count = counted(rows, kept, sorted_write=layout.sorts_writes)
            stage.replace(rows)
            _audit(stage, kind, contract, count(), batch)
            enter_phase("staged", name, kind, batch)
            judge_stage(project, name, kind, stage, events, before=state.rows)
            made = report or _report(project, name, kind, state, batch)
            snapshot = stage.publish(
                made,
                properties=properties | {FOLDED_AT: since},
                without=[c for c in state.columns if c not in wanted],
            )
        enter_phase("published", name, kind, batch)
        if report is None:
            acknowledge(project, made, snapshot, seconds=perf_counter() - begun)
        logger.info("%s %s: folded again up to batch %s (%.1f s)", name, kind, batch, perf_counter() - begun)


def _report(project: Project, name: TableName, kind: Kind, state: TableState, batch: int) -> CommitReport:
    record = project.format_of(name).state(name.with_suffix("changes"))
    return CommitReport(
        table=str(name), stage=kind, batch=batch, batches=batch - state.batch,
        content_hash=record.bookmark.content_hash if record and record.bookmark else "",
        run_id=project.run_id,
        correlation_id=project.correlation_id, committed_at=now(),
    )  # fmt: skip


def _audit(stage: Stage, kind: Kind, contract: TableContract, written: int, batch: int) -> None:
    stage.expect(written)
    refuse_doubled_keys(stage, kind, contract.keys, batch=batch)
