"""Retention of single events: compact the change log up to a horizon, in one commit."""

from __future__ import annotations

import datetime as dt
import logging
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from kedro_lakehouse.changes.compact import fold_old_events, is_old
from kedro_lakehouse.changes.events import BATCH, OPENED_ORDER, OPENED_TIME, ORDER, TIME, column
from kedro_lakehouse.commits import runner
from kedro_lakehouse.commits.cache import cache
from kedro_lakehouse.commits.excluded import accepted_events
from kedro_lakehouse.commits.marks import HORIZON, horizon_of, last_move
from kedro_lakehouse.errors import CommitConflictError, UnsupportedError
from kedro_lakehouse.names import quote

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame

    from kedro_lakehouse.formats.base import Stage, TableState
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.ops.lease import Lease
    from kedro_lakehouse.ops.report import CommitReport

logger = logging.getLogger(__name__)

_BEFORE: Final = {
    "timestamp_ntz": "{time} < TIMESTAMP_NTZ '{moment}'",
    "timestamp": "{time} < TIMESTAMP '{moment} UTC'",
    "date": "CAST({time} AS TIMESTAMP_NTZ) < TIMESTAMP_NTZ '{moment}'",
}


def compact_change_log(table: LakeTable, retention: dt.timedelta | None = None) -> int:
    """Replace each key's events from before a table's horizon by one event; return how many fewer there are.

    The horizon is the greatest time of an accepted event, or now if that is earlier, less the table's
    ``changes_retention``. Only events that the current and the history table have applied are replaced.

    Guarantees:
        Current and history stay as they are; rows, bookmark and horizon change in one commit. If there is
        nothing to replace, or it was done before, no row is written.

    Raises:
        UnsupportedError: The table's events have a log position instead of a time.
        AuditFailedError: The staged rows are not the planned ones; nothing was published.
    """
    retention = retention or table.config.changes_retention
    if retention is None:
        return 0
    steps = ("ingestion", "current", "history")
    return runner.planned_again(table, steps, lambda held: _compact(table, retention, held))


def _new_horizon(
    events: DataFrame, state: TableState, retention: dt.timedelta, name: TableName
) -> dt.datetime | None:
    kind = state.columns[TIME].typeName()
    if kind not in _BEFORE:
        raise UnsupportedError(
            what=f"{name}: `changes_retention` needs the time of events; they have a {kind} instead.",
            remedy="Declare `effective_time`, or remove `changes_retention` from tables.yml.",
        )
    latest = F.unix_micros(F.max(column(TIME).cast("timestamp")))
    micros = events.agg(latest.alias("latest")).collect()[0]["latest"]
    if micros is None:
        return None
    epoch = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
    # One event with a time far in the future must not make every later event too late.
    greatest = min(epoch + dt.timedelta(microseconds=micros), dt.datetime.now(dt.UTC))
    earlier = horizon_of(state)
    found = greatest - retention
    return max(found, earlier) if earlier else found


def _compact(table: LakeTable, retention: dt.timedelta, held: Lease) -> int:
    lake, changes = table.format, table.changes
    state = lake.state(changes)
    if state is None or state.bookmark is None:
        return 0
    # The last batch that all targets of the table have applied.
    applied = min((target.batch if target else 0 for target in map(table.state, table.targets)), default=0)
    if (archive := table.state("archive")) is not None and last_move(table.state("current")):
        applied = min(applied, archive.batch)  # which keys changed since is asked with every question
    horizon = _new_horizon(lake.read(changes), state, retention, table.name)
    if applied == 0 or horizon is None:
        return 0
    old = lake.read(changes).where(is_old(horizon, applied)).count()
    if old == 0:
        return 0
    opened = table.config.history is not None
    if opened:
        # Before any frame reads the change log: Spark runs no plan whose table has changed since.
        more = {OPENED_ORDER: state.columns[ORDER], OPENED_TIME: state.columns[TIME]}
        lake.evolve(changes, dict(state.columns) | more, state)
    with ExitStack() as cached:
        events = accepted_events(table)
        rows = cache(
            fold_old_events(events, table.contract, horizon=horizon, applied=applied, opened=opened), cached
        )
        new = rows.count()
        if new >= old:
            return 0
        change = _Compaction(table, rows, _Compacted(horizon, applied, state.bookmark, old, new))
        runner.attempt([change], held)
    logger.info(
        "%s changes: %s events before %s became %s", table, f"{old:,}", horizon.isoformat(), f"{new:,}"
    )
    return old - new


@dataclass(frozen=True)
class _Compacted:
    """What is compacted: the horizon, the bookmark of the change log, and the row counts before and after."""

    horizon: dt.datetime
    applied: int
    bookmark: CommitReport
    old: int
    new: int


class _Compaction(runner.Change):
    """Replaces the events from before a horizon by their fold."""

    def __init__(self, table: LakeTable, rows: DataFrame, facts: _Compacted) -> None:
        super().__init__(table, table.changes, step="trim", batch=facts.bookmark.batch)
        self._rows, self._facts = rows, facts

    def is_done(self, state: TableState | None) -> bool:
        if state is None or state.bookmark != self._facts.bookmark:
            raise CommitConflictError(table=self.target, attempts=1)
        return False

    def write(self, stage: Stage, state: TableState) -> CommitReport:
        facts, kind = self._facts, state.columns[TIME].typeName()
        moment = facts.horizon.astimezone(dt.UTC).replace(tzinfo=None).isoformat(sep=" ")
        earlier = _BEFORE[kind].format(time=quote(TIME), moment=moment)
        stage.replace_where(f"{earlier} AND {quote(BATCH)} <= {facts.applied}", self._rows)
        stage.expect(state.rows - facts.old + facts.new)
        return facts.bookmark

    def properties(self, _: TableState) -> Mapping[str, str]:
        return {HORIZON: self._facts.horizon.isoformat()}
