"""Plan a small batch from Arrow tables, by the rules of ``changes``, in a session that needs no JVM."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import BATCH, DELETE, OP, ORDER, TIME, TRUNCATE, column
from kedro_lakehouse.changes.history import (
    EFFECTIVE_FROM,
    EFFECTIVE_TO,
    IS_CURRENT,
    ORDER_FROM,
    ORDER_LAST,
    ORDER_TO,
    TOMBSTONE,
)
from kedro_lakehouse.changes.plan import (
    ACTION,
    INSERT,
    LATE,
    TIED,
    Target,
    first_rows,
    mark_late,
    needs_no_target_values,
)
from kedro_lakehouse.changes.plan_rows import changed_rows, rows_by_order
from kedro_lakehouse.names import is_reserved_column

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kedro_lakehouse.changes.contract import TableContract
    from kedro_lakehouse.changes.plan import Kind


@dataclass(frozen=True, kw_only=True)
class SmallBatch:
    """What planning a small batch needs, of the keys that its events are about.

    - ``past``: events of the change log: those of the pending batches, which come after the ``bookmark``, and
      of the applied ones at least the truncates and those of every key that may have a late event.
    - ``rows``: the target's rows of the keys; None while the target is empty.
    """

    kind: Kind
    contract: TableContract
    past: pa.Table
    bookmark: int
    rows: pa.Table | None = None
    horizon: dt.datetime | None = None


@dataclass(frozen=True, kw_only=True)
class PlannedRows:
    """The rows that change, with ``_action``; how many events were late, and how many of them did nothing."""

    rows: pa.Table
    late: int = 0
    stale: int = 0


def unsure_events(
    pending: pa.Table, rows: pa.Table, kind: Kind, contract: TableContract, *, deletes: bool
) -> pa.Table:
    """The pending events of keys of which one may be late or tied.

    A key without a row may have been deleted by a later event, if the change log holds ``deletes`` at all.

    Args:
        pending: Events without truncates.
        rows: The target's rows of their keys.
        kind: Which target it is.
        contract: The table's contract.
        deletes: Whether the change log may hold deletes.
    """
    keys = list(contract.keys)
    last = ORDER if kind == "current" else ORDER_LAST
    held = {key_of(row, keys): row[last] for row in _open(rows, kind, contract)}

    def is_unsure(event: dict[str, Any]) -> bool:
        key = key_of(event, keys)
        return not _is_later(event[ORDER], held[key]) if key in held else deletes

    unsure = [is_unsure(event) for event in pending.select([*keys, ORDER]).to_pylist()]
    return pending.filter(pa.array(unsure, pa.bool_()))


def key_of(row: Mapping[str, Any], names: Sequence[str]) -> str:
    """The values of a row in some columns, as one text."""
    return repr([row[name] for name in names])


def _open(rows: pa.Table, kind: Kind, contract: TableContract) -> list[dict[str, Any]]:
    """The rows that later events continue: all of a current table, the open ones of a history."""
    if kind == "history":
        is_open = rows[IS_CURRENT]
        if contract.hard_deletes == "tombstone" and TOMBSTONE in rows.column_names:
            lasting = pc.and_kleene(rows[TOMBSTONE], pc.is_null(rows[ORDER_TO]))
            is_open = pc.or_kleene(is_open, lasting)
        rows = rows.filter(is_open)
    found: list[dict[str, Any]] = rows.to_pylist()
    return found


def _is_later(order: Mapping[str, Any] | None, than: Mapping[str, Any] | None) -> bool:
    """Whether an order is known to come after another one: where a field is null it is not."""
    for one, other in zip((order or {}).values(), (than or {}).values(), strict=False):
        if one is None or other is None:
            return False
        if one != other:
            return bool(one > other)
    return False


def plan_small(session: SparkSession, batch: SmallBatch) -> PlannedRows:
    """Plan which rows of a target change, and how, as ``changes.plan_rows`` does in Spark."""
    applied = pc.less_equal(batch.past[BATCH], batch.bookmark)
    truncates = pc.any(pc.equal(batch.past[OP], TRUNCATE)).as_py() or False
    past = frame_of(session, batch.past)
    pending = past.where(column(BATCH) > batch.bookmark)
    if batch.rows is None:
        rows = first_rows(batch.kind, pending, batch.contract, truncates=truncates).toArrow()
        inserted = rows.append_column(ACTION, pa.array([INSERT] * rows.num_rows, pa.string()))
        return PlannedRows(rows=_typed(inserted, batch.past.schema))
    of_applied = batch.past[OP].filter(applied)
    target = Target(
        kind=batch.kind,
        rows=frame_of(session, batch.rows),
        past=past,
        bookmark=batch.bookmark,
        deletes=bool(pc.any(pc.equal(of_applied, DELETE)).as_py()),
        truncates=truncates,
        new_truncates=False,
        horizon=batch.horizon,
    )
    planned = _planned(session, pending, target, batch.contract)
    return replace(planned, rows=_typed(planned.rows, batch.past.schema))


def with_columns_of(events: pa.Schema, rows: pa.Table) -> pa.Table:
    """Rows of a target with the columns that the change log has by now, in its types.

    The change log has taken over new and widened columns; the target does with the commit that is planned.
    """
    for field in events:
        if field.name not in rows.column_names and not is_reserved_column(field.name):
            rows = rows.append_column(field.name, pa.nulls(rows.num_rows, field.type))
    return _typed(rows, events)


def _typed(rows: pa.Table, events: pa.Schema) -> pa.Table:
    """The rows in the types of the events that they come from: Sail forgets the zone of some times."""
    of_framework = dict.fromkeys((ORDER_FROM, ORDER_TO, ORDER_LAST), ORDER)
    of_framework |= dict.fromkeys((EFFECTIVE_FROM, EFFECTIVE_TO), TIME)

    def kind(field: pa.Field) -> pa.DataType:
        name = of_framework.get(field.name, field.name)
        return events.field(name).type if name in events.names else field.type

    return rows.cast(pa.schema([pa.field(field.name, kind(field)) for field in rows.schema]))


def _planned(
    session: SparkSession, pending: DataFrame, target: Target, contract: TableContract
) -> PlannedRows:
    if needs_no_target_values(target, contract):
        planned = rows_by_order(pending, target, contract).toArrow()
        if not pc.any(planned[TIED]).as_py():
            rows = planned.filter(pc.is_valid(planned[ACTION])).drop_columns([LATE, TIED])
            late = pc.sum(planned[LATE]).as_py() or 0
            return PlannedRows(rows=rows, late=late, stale=late)
    marks = mark_late(pending, target, contract).toArrow()
    marked = frame_of(session, marks)
    late, tied = (pc.sum(marks[c]).as_py() or 0 for c in (LATE, TIED))
    rows = changed_rows(marked, target, contract, late=late > 0, tied=tied > 0).toArrow()
    return PlannedRows(rows=rows, late=late, stale=_stale(marks, rows, target, contract))


def _stale(marks: pa.Table, rows: pa.Table, target: Target, contract: TableContract) -> int:
    """How many late events left their row in a current table unchanged."""
    if target.kind == "history":
        return 0
    changed = {repr(key) for key in rows.select(list(contract.keys)).to_pylist()}
    unsure = TIED if needs_no_target_values(target, contract) else LATE
    late = marks.filter(marks[LATE]).select([*contract.keys, unsure]).to_pylist()
    return sum(not e.pop(unsure) or repr(e) not in changed for e in late)


def frame_of(session: SparkSession, rows: pa.Table) -> DataFrame:
    """A frame of an Arrow table; Spark Connect makes none of a table without rows."""
    if rows.num_rows:
        return session.createDataFrame(rows)
    nothing = pa.Table.from_pylist([{}], pa.schema([f.with_nullable(nullable=True) for f in rows.schema]))
    return session.createDataFrame(nothing).where(F.lit(col=False))
