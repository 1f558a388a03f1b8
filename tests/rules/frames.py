"""Events and tables as frames of a session, without files, commits or a table format.

The rules are those of ``kedro_lakehouse.changes``, in the order in which a commit applies them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from conformance.events import rules_of
from conformance.lots import declared, order_names
from conformance.typed import arrow_type
from model.events import UPSERT
from pyspark.sql import functions as F

from kedro_lakehouse.changes import plan, plan_rows
from kedro_lakehouse.changes.contract import TableContract
from kedro_lakehouse.changes.events import BATCH, OP, ORDER, TIME, TRUNCATE, UNSET
from kedro_lakehouse.changes.plan import ACTION, INSERT, LATE, REMOVE, TIED, Target, identity_columns
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from conformance.cases import TableCase
    from model.events import Event
    from pyspark.sql import DataFrame, SparkSession

KINDS = ("current", "history")


@dataclass(frozen=True)
class Planning:
    """The rules by which a commit plans; a test may plant a fault in one."""

    mark_late: Callable[..., DataFrame] = plan.mark_late
    changed_rows: Callable[..., DataFrame] = plan_rows.changed_rows
    rows_by_order: Callable[..., DataFrame] = plan_rows.rows_by_order
    needs_no_target_values: Callable[..., bool] = plan.needs_no_target_values


@dataclass
class Tables:
    """The current and the history table of a case, and its accepted events, as Arrow tables."""

    session: SparkSession
    case: TableCase
    planning: Planning = field(default_factory=Planning)
    accepted: list[tuple[int, Event]] = field(default_factory=list)
    held: dict[str, pa.Table] = field(default_factory=dict)
    batch: int = 0

    def __post_init__(self) -> None:
        step = self.case.steps[0]
        self.rules = rules_of(step.options, step.columns)
        config = declared(step.options) | {
            "source": "s",
            "order_by": order_names(step),
        }
        self.contract = TableContract.of(TableName("cases", "case"), TableConfig.model_validate(config))

    def apply(self, events: Sequence[Event]) -> None:
        """Accept a batch, without events that are known, and bring both tables up to it."""
        known = {self.rules.identity(e) for _, e in self.accepted}
        self.batch += 1
        for event in events:
            if (identity := self.rules.identity(event)) not in known:
                known.add(identity)
                self.accepted.append((self.batch, event))
        past = self._frame(self.accepted)
        for kind in KINDS:
            self._bring(kind, past)

    def rows(self, kind: str) -> list[dict[str, Any]]:
        """The rows of a table, with orders as the model has them."""
        orders = ("_order", "_order_from", "_order_to", "_order_last")
        return [
            {n: tuple(v.values()) if n in orders and v is not None else v for n, v in row.items()}
            for row in self.held[kind].to_pylist()
        ]

    def _bring(self, kind: Any, past: DataFrame) -> None:
        pending = past.where(F.col(BATCH) == self.batch)
        truncates = any(e.op == TRUNCATE for _, e in self.accepted)
        if kind not in self.held:
            self.held[kind] = plan.first_rows(kind, pending, self.contract, truncates=truncates).toArrow()
            return
        target = Target(
            kind=kind,
            rows=self._of(self.held[kind]),
            past=past,
            bookmark=self.batch - 1,
            truncates=truncates,
            new_truncates=any(e.op == TRUNCATE and b == self.batch for b, e in self.accepted),
        )
        changed = self._changes(pending, target)
        self.held[kind] = _merged(self.held[kind], changed, identity_columns(kind, self.contract))

    def _changes(self, pending: DataFrame, target: Target) -> pa.Table:
        events = pending.where(F.col(OP) != TRUNCATE) if target.truncates else pending
        if self.planning.needs_no_target_values(target, self.contract) and not target.new_truncates:
            planned = self.planning.rows_by_order(events, target, self.contract).toArrow()
            if not any(planned[TIED].to_pylist()):
                return planned.filter(pc.is_valid(planned[ACTION])).drop_columns([LATE, TIED])
        marked = self._of(self.planning.mark_late(events, target, self.contract).toArrow())
        late, tied = marked.agg(*[F.count(F.when(F.col(c), 1)) for c in (LATE, TIED)]).first() or (0, 0)
        changed = self.planning.changed_rows(marked, target, self.contract, late=late > 0, tied=tied > 0)
        return changed.toArrow()

    def _frame(self, events: Sequence[tuple[int, Event]]) -> DataFrame:
        step = self.case.steps[0]
        orders = dict(zip(order_names(step), map(arrow_type, step.kinds.order), strict=True))
        partial = self.rules.unset_marker is not None
        schema = pa.schema(
            [
                *((n, arrow_type(t)) for n, t in step.kinds.columns.items()),
                (OP, pa.string()),
                (ORDER, pa.struct(list(orders.items()))),
                (TIME, arrow_type(step.kinds.time or step.kinds.order[0])),
                (BATCH, pa.int64()),
                *([(UNSET, pa.list_(pa.string()))] if partial else []),
            ]
        )
        return self._of(pa.Table.from_pylist([self._row(b, e, list(orders)) for b, e in events], schema))

    def _of(self, table: pa.Table) -> DataFrame:
        """A frame of an Arrow table; Spark Connect makes none of a table without rows."""
        if table.num_rows:
            return self.session.createDataFrame(table)
        nothing = pa.Table.from_pylist([{}], pa.schema([f.with_nullable(True) for f in table.schema]))
        return self.session.createDataFrame(nothing).where(F.lit(False))

    def _row(self, batch: int, event: Event, orders: list[str]) -> dict[str, Any]:
        row = {n: None if self.rules.is_unset(v) else v for n, v in event.row.items()}
        if event.op != UPSERT:
            row = {n: v for n, v in row.items() if n in self.rules.keys}
        facts = {
            OP: event.op,
            ORDER: dict(zip(orders, event.order, strict=True)),
            TIME: event.time,
            BATCH: batch,
        }
        unsent = self.rules.unsent(event)
        return row | facts | ({UNSET: list(unsent)} if unsent else {})


def _merged(held: pa.Table, changed: pa.Table, identity: Sequence[str]) -> pa.Table:
    """Delete the rows that a change replaces or removes, and add the rows that it writes."""

    def place(row: dict[str, Any]) -> str:
        return repr([row[n] for n in identity])

    actions, rows = changed[ACTION].to_pylist(), changed.drop_columns([ACTION]).to_pylist()
    gone = {place(r) for a, r in zip(actions, rows, strict=True) if a != INSERT}
    kept = [r for r in held.to_pylist() if place(r) not in gone]
    added = [r for a, r in zip(actions, rows, strict=True) if a != REMOVE]
    return pa.Table.from_pylist([*kept, *({n: r[n] for n in held.column_names} for r in added)], held.schema)
