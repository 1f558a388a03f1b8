"""Events and tables as frames of a session, without files, commits or a table format.

The rules are those of ``kedro_lakehouse.changes``, in the order in which a commit applies them.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, fields
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
from kedro_lakehouse.changes.events import BATCH, DELETE, OP, ORDER, TIME, TRUNCATE, UNSET
from kedro_lakehouse.changes.plan import ACTION, INSERT, LATE, REMOVE, TIED, Target, identity_columns
from kedro_lakehouse.commits import small_rules
from kedro_lakehouse.config.tables import TableConfig
from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

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

    @contextlib.contextmanager
    def planted(self) -> Iterator[None]:
        """While the block runs, a small batch is planned by these rules."""
        names = [f.name for f in fields(self)]
        right = {name: getattr(small_rules, name) for name in names}
        try:
            for name in names:
                setattr(small_rules, name, getattr(self, name))
            yield
        finally:
            for name, rule in right.items():
                setattr(small_rules, name, rule)


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
        past = self.past()
        for kind in KINDS:
            self._bring(kind, past)

    def past(self) -> pa.Table:
        """The accepted events, as the change log has them."""
        return self._events(self.accepted)

    def rows(self, kind: str) -> list[dict[str, Any]]:
        """The rows of a table, with orders as the model has them."""
        orders = ("_order", "_order_from", "_order_to", "_order_last")
        return [
            {n: tuple(v.values()) if n in orders and v is not None else v for n, v in row.items()}
            for row in self.held[kind].to_pylist()
        ]

    def _bring(self, kind: Any, past: pa.Table) -> None:
        """Plan as a small batch does: of the applied events only those are given that planning needs."""
        held = self.held.get(kind)
        if held is not None and self._has_new_truncate():
            changed = self._changed_by_truncate(kind, past, held)
        else:
            changed = self._plan(self._needed(kind, past, held))
        if held is None:
            self.held[kind] = changed.drop_columns([ACTION])
        else:
            self.held[kind] = _merged(held, changed, identity_columns(kind, self.contract))

    def _needed(self, kind: Any, past: pa.Table, held: pa.Table | None) -> small_rules.SmallBatch:
        facts: dict[str, Any] = {"kind": kind, "contract": self.contract, "bookmark": self.batch - 1}
        is_new = pc.equal(past[BATCH], self.batch)
        pending, applied = past.filter(is_new), past.filter(pc.invert(is_new))
        if held is None:
            return small_rules.SmallBatch(past=pending, **facts)
        rows = _of_keys(held, pending, self.contract.keys)
        ops = applied[OP].to_pylist()
        unsure = small_rules.unsure_events(pending, rows, kind, self.contract, deletes=DELETE in ops)
        truncates = applied.filter(pc.equal(applied[OP], TRUNCATE))
        old = _of_keys(applied.filter(pc.not_equal(applied[OP], TRUNCATE)), unsure, self.contract.keys)
        return small_rules.SmallBatch(past=pa.concat_tables([pending, truncates, old]), rows=rows, **facts)

    def _plan(self, batch: small_rules.SmallBatch) -> pa.Table:
        with self.planning.planted():
            return small_rules.plan_small(self.session, batch).rows

    def _has_new_truncate(self) -> bool:
        return any(e.op == TRUNCATE and b == self.batch for b, e in self.accepted)

    def _changed_by_truncate(self, kind: Any, past: pa.Table, held: pa.Table) -> pa.Table:
        """A truncate may touch any row, so that no small batch has one: the large way's rules plan it."""
        frame = small_rules.frame_of(self.session, past)
        target = Target(
            kind=kind,
            rows=small_rules.frame_of(self.session, held),
            past=frame,
            bookmark=self.batch - 1,
        )
        events = frame.where((F.col(BATCH) == self.batch) & (F.col(OP) != TRUNCATE))
        marks = self.planning.mark_late(events, target, self.contract).toArrow()
        late, tied = (bool(pc.any(marks[c]).as_py()) for c in (LATE, TIED))
        marked = small_rules.frame_of(self.session, marks)
        return self.planning.changed_rows(marked, target, self.contract, late=late, tied=tied).toArrow()

    def _events(self, events: Sequence[tuple[int, Event]]) -> pa.Table:
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
        return pa.Table.from_pylist([self._row(b, e, list(orders)) for b, e in events], schema)

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


def _of_keys(rows: pa.Table, events: pa.Table, keys: Sequence[str]) -> pa.Table:
    """The rows that have a key of the events."""
    wanted = {small_rules.key_of(e, keys) for e in events.select(list(keys)).to_pylist()}
    mask = [small_rules.key_of(r, keys) in wanted for r in rows.select(list(keys)).to_pylist()]
    return rows.filter(pa.array(mask, pa.bool_()))


def _merged(held: pa.Table, changed: pa.Table, identity: Sequence[str]) -> pa.Table:
    """Delete the rows that a change replaces or removes, and add the rows that it writes."""

    def place(row: dict[str, Any]) -> str:
        return repr([row[n] for n in identity])

    actions, rows = changed[ACTION].to_pylist(), changed.drop_columns([ACTION]).to_pylist()
    gone = {place(r) for a, r in zip(actions, rows, strict=True) if a != INSERT}
    kept = [r for r in held.to_pylist() if place(r) not in gone]
    added = [r for a, r in zip(actions, rows, strict=True) if a != REMOVE]
    return pa.Table.from_pylist([*kept, *({n: r[n] for n in held.column_names} for r in added)], held.schema)
