"""Full extracts: each is compared with what the table holds, and becomes events. Section 9."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from model.events import DELETE, UPSERT, Event
from model.fold import Row, current, history, states
from model.table import RefusedError, Table
from model.values import rank, ranks, same_on

if TYPE_CHECKING:
    from collections.abc import Sequence

EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
JUDGED_FROM = 100


@dataclass(kw_only=True)
class Extracts:
    """A table that is made from full extracts.

    ``max_delete_fraction`` is judged from a hundred rows on where it is not declared (None).
    """

    table: Table
    valid_from: str | None = None
    updated_at: str | None = None
    initial_valid_from: Any = "event"
    hard_deletes: str = "close"
    delete_scope: tuple[str, ...] = ()
    max_delete_fraction: float | None = None
    allow_empty: bool = False
    counts: Counter[str] = field(default_factory=Counter)
    last: tuple[Any, ...] | None = None
    _contents: dict[tuple[Any, ...], Any] = field(default_factory=dict)

    def apply(self, at: dt.datetime, name: str, rows: Sequence[Row]) -> None:
        """Take one extract.

        Raises:
            RefusedError: The extract is refused; the table stays as it was.
        """
        rules = self.table.rules
        order = (at, name)
        content = sorted(ranks(r.get(c) for c in rules.columns) for r in rows)
        if self._contents.get(order) == content:
            return
        if self.last is not None and ranks(order) < ranks(self.last):
            raise RefusedError("SNAPSHOT_OUT_OF_ORDER")
        if not rows and not self.allow_empty:
            raise RefusedError("SNAPSHOT_EMPTY")
        given = self._checked(rows, order)
        held = current(self.table.accepted, rules)
        present = {rules.key_of(r) for r in rows}
        scoped = {k: r for k, r in held.items() if self._in_scope(r, rows)}
        lost = [k for k in scoped if k not in present]
        if self.hard_deletes != "ignore":
            self._judge(len(lost), len(scoped), empty=not rows)
        events = [e for key, row in given.items() if (e := self._change(key, row, held, order))]
        if self.hard_deletes != "ignore":
            events += [Event(DELETE, order, dict(zip(rules.keys, key, strict=True)), at) for key in lost]
        self.counts.update(self.table.apply(events))
        self.last = order
        self._contents[order] = content

    def _checked(self, rows: Sequence[Row], order: tuple[Any, ...]) -> dict[tuple[Any, ...], Row]:
        """The valid rows by key; rows without a whole key, or whose key occurs twice, are set aside."""
        rules = self.table.rules
        times = Counter(rules.key_of(r) for r in rows)
        found = {}
        for row in rows:
            key = rules.key_of(row)
            if any(part is None for part in key):
                self.table.quarantined.append((Event(UPSERT, order, row), "null_key"))
            elif times[key] > 1:
                self.table.quarantined.append((Event(UPSERT, order, row), "duplicate_key"))
            else:
                found[key] = {c: row.get(c) for c in rules.columns}
        return found

    def _in_scope(self, row: Row, rows: Sequence[Row]) -> bool:
        """Whether an extract speaks of a row: it holds the row's values of ``delete_scope``."""
        scope = self.delete_scope
        return not scope or any(ranks(r.get(c) for c in scope) == ranks(row[c] for c in scope) for r in rows)

    def _judge(self, lost: int, scoped: int, *, empty: bool) -> None:
        if empty and self.allow_empty:
            return
        declared = self.max_delete_fraction
        limit = 0.3 if declared is None else declared
        judged = declared is not None or scoped >= JUDGED_FROM
        if judged and lost > limit * scoped:
            raise RefusedError("SNAPSHOT_DELETES_TOO_MANY")

    def _change(
        self, key: tuple[Any, ...], row: Row, held: dict[tuple[Any, ...], Row], order: tuple[Any, ...]
    ) -> Event | None:
        """The upsert that an extract's row is, if it is one."""
        rules = self.table.rules
        own = [e for e in self.table.accepted if rules.key_of(e.row) == key]
        time = self._time(row, order)
        if key in held:
            if same_on(held[key], row, rules.columns):
                return None
            last = max(own, key=lambda e: ranks(e.order))
            if self.updated_at and rank(self._told(row, order)) <= rank(self._told(last.row, last.order)):
                others = [c for c in rules.values if c != self.updated_at]
                self.counts["changed_without_newer_timestamp"] += not same_on(held[key], row, others)
                return None
        elif own and (self.updated_at or self.valid_from):
            ended = states(own, rules)[-1].time
            time = max(time, ended, history(own, rules)[-1]["effective_to"], key=rank)
        return Event(UPSERT, order, row, time)

    def _time(self, row: Row, order: tuple[Any, ...]) -> Any:
        """From when a row of this extract is valid; the first load may be given a time of its own."""
        if not self._contents and self.initial_valid_from != "event":
            return EPOCH if self.initial_valid_from == "epoch" else self.initial_valid_from
        return self._told(row, order)

    def _told(self, row: Row, order: tuple[Any, ...]) -> Any:
        column = self.valid_from or self.updated_at
        told = row.get(column) if column else None
        return order[0] if told is None else told
