"""Retention of single events: the record of changes is trimmed to a horizon, in one commit."""

from __future__ import annotations

import datetime as dt
import logging
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from pyspark import StorageLevel
from pyspark.sql import functions as F

from kedro_lakehouse.changes.contract import TableContract
from kedro_lakehouse.changes.events import BATCH, OPENED_ORDER, OPENED_TIME, ORDER, TIME, column
from kedro_lakehouse.changes.trim import fold_old_events, is_old
from kedro_lakehouse.datasets.withdrawn import accepted_events
from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.formats.base import enter_phase
from kedro_lakehouse.names import quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kedro_lakehouse.formats.base import TableState
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project

logger = logging.getLogger(__name__)

HORIZON: Final = "kedro_lakehouse.horizon"
"""Table property of a trimmed record of changes: events from before this time are too late."""
_BEFORE: Final = {
    "timestamp_ntz": "{time} < TIMESTAMP_NTZ '{moment}'",
    "timestamp": "{time} < TIMESTAMP '{moment} UTC'",
    "date": "CAST({time} AS TIMESTAMP_NTZ) < TIMESTAMP_NTZ '{moment}'",
}


def horizon_of(state: TableState | None) -> dt.datetime | None:
    """The time up to which a record of changes is trimmed; None where it is whole."""
    text = state.properties.get(HORIZON) if state else None
    return dt.datetime.fromisoformat(text) if text else None


def trim_changes(project: Project, name: TableName) -> int:
    """Replace, key by key, the events from before a table's horizon by one event; how many went.

    The horizon is the greatest time of an accepted event, or now if that is earlier, less the table's
    ``changes_retention``. Only events that the current and the history table have are replaced.

    Guarantees:
        Current and history stay as they are; rows, bookmark and horizon change in one commit. Where
        there is nothing to replace, or it was done before, no row is written.

    Raises:
        UnsupportedError: The table's events have no time, but a log position.
        AuditFailedError: What was staged is not what was planned; nothing was published.
    """
    table, lake, changes = project.table(name), project.format_of(name), name.with_suffix("changes")
    if table.changes_retention is None:
        return 0
    with ExitStack() as stack:
        for stage in ("ingestion", "current", "history"):
            stack.enter_context(project.lease(name, stage))
        state = lake.state(changes)
        if state is None or state.bookmark is None:
            return 0
        applied = _applied(project, name)
        horizon = _new_horizon(lake.read(changes), state, table.changes_retention, name)
        if applied == 0 or horizon is None:
            return 0
        return _trim(project, name, state, horizon, applied)


def _applied(project: Project, name: TableName) -> int:
    """The last batch that all targets of the table have."""
    table = project.table(name)
    kept = [role for role, wanted in (("current", table.current), ("history", table.history)) if wanted]
    states = [project.format_of(name).state(name.with_suffix(role)) for role in kept]  # type: ignore[arg-type]
    return min((s.batch if s else 0 for s in states), default=0)


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
    # One event with a time far ahead must not make every later one too late.
    greatest = min(epoch + dt.timedelta(microseconds=micros), dt.datetime.now(dt.UTC))
    earlier = horizon_of(state)
    found = greatest - retention
    return max(found, earlier) if earlier else found


def _trim(project: Project, name: TableName, state: TableState, horizon: dt.datetime, applied: int) -> int:
    lake, changes, contract = project.format_of(name), name.with_suffix("changes"), _contract(project, name)
    opened = project.table(name).history is not None
    old = lake.read(changes).where(is_old(horizon, applied)).count()
    if old == 0:
        return 0
    if opened:
        # Before anything reads the record: Spark runs no plan whose table has changed since.
        more = {OPENED_ORDER: state.columns[ORDER], OPENED_TIME: state.columns[TIME]}
        lake.evolve(changes, dict(state.columns) | more, state)
    events = accepted_events(project, name)
    rows = fold_old_events(events, contract, horizon=horizon, applied=applied, opened=opened)
    rows = rows.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        new = rows.count()
        if new >= old:
            return 0
        with lake.stage(changes, state) as stage:
            moment = horizon.astimezone(dt.UTC).replace(tzinfo=None).isoformat(sep=" ")
            earlier = _BEFORE[state.columns[TIME].typeName()].format(time=quote(TIME), moment=moment)
            stage.replace_where(f"{earlier} AND {quote(BATCH)} <= {applied}", rows)
            stage.expect(state.rows - old + new)
            assert state.bookmark is not None  # noqa: S101 - asked for before
            enter_phase("staged", name, "trim", state.batch)
            stage.publish(state.bookmark, properties={HORIZON: horizon.isoformat()})
    finally:
        rows.unpersist()
    enter_phase("published", name, "trim", state.batch)
    logger.info(
        "%s changes: %s events before %s became %s", name, f"{old:,}", horizon.isoformat(), f"{new:,}"
    )
    return old - new


def _contract(project: Project, name: TableName) -> TableContract:
    return TableContract.of(name, project.table(name))
