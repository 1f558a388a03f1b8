"""A table to which batches are applied: what each accepts, and what it counts. Sections 2, 3 and 12."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from model.events import TRUNCATE, Event, Rules
from model.fold import Row, current, events_by_key, history
from model.values import ranks

if TYPE_CHECKING:
    from collections.abc import Sequence


class RefusedError(Exception):
    """A batch or an extract is refused and nothing is written; ``code`` says why."""

    def __init__(self, code: str) -> None:
        super().__init__(code)
        self.code = code


@dataclass
class Table:
    """All accepted events of a table: what it holds is a function of them."""

    rules: Rules
    max_invalid_fraction: float = 1.0
    accepted: list[Event] = field(default_factory=list)
    quarantined: list[tuple[Event, str]] = field(default_factory=list)

    @property
    def current(self) -> list[Row]:
        """The rows that exist."""
        return list(current(self.accepted, self.rules).values())

    @property
    def history(self) -> list[Row]:
        """The versions of all rows."""
        return history(self.accepted, self.rules)

    def apply(self, batch: Sequence[Event]) -> dict[str, int]:
        """Apply one batch and count.

        Raises:
            RefusedError: The batch is refused as a whole.
        """
        reasons = [(event, self.rules.reason(event)) for event in batch]
        invalid = [(event, reason) for event, reason in reasons if reason is not None]
        if len(invalid) > self.max_invalid_fraction * len(batch):
            raise RefusedError("TOO_MANY_INVALID")
        known = {self.rules.identity(e) for e in self.accepted}
        fresh = []
        for event, reason in reasons:
            if reason is None and self.rules.identity(event) not in known:
                known.add(self.rules.identity(event))
                fresh.append(event)
        ties = self._ties([*self.accepted, *fresh]) - self._ties(self.accepted)
        if ties and self.rules.on_tie == "fail":
            raise RefusedError("SEQUENCE_TIE")
        counts = {
            "events_in": len(batch),
            "applied": len(fresh),
            "quarantined": len(invalid),
            "duplicates": len(batch) - len(fresh) - len(invalid),
            "sequence_ties": ties,
        }
        counts |= self._effects(fresh)
        self.accepted += fresh
        self.quarantined += invalid
        return counts

    def _ties(self, events: Sequence[Event]) -> int:
        """How many distinct events of a key and order there are beyond the first of each."""
        places = Counter((self.rules.key_of(e.row), ranks(e.order)) for e in events if e.op != TRUNCATE)
        return sum(n - 1 for n in places.values())

    def _effects(self, fresh: list[Event]) -> dict[str, int]:
        after = [*self.accepted, *fresh]
        held = {
            key: max(ranks(e.order) for e in own)
            for key, own in events_by_key(self.accepted, self.rules).items()
        }
        truncates = [ranks(e.order) for e in self.accepted if e.op == TRUNCATE]

        def is_late(event: Event) -> bool:
            key = self.rules.key_of(event.row)
            if event.op == TRUNCATE:
                return any(order >= ranks(event.order) for order in held.values())
            last = held.get(key, max(truncates, default=None))
            return last is not None and ranks(event.order) <= last

        late = [e for e in fresh if is_late(e)]
        rows, new_rows = current(self.accepted, self.rules), current(after, self.rules)
        own = events_by_key(self.accepted, self.rules)
        stale = [e for e in late if self._leaves_its_row(e, rows, own)]
        counts = {
            "late": len(late),
            "stale_ignored": len(stale),
            "inserted": len(new_rows.keys() - rows.keys()),
            "deleted": len(rows.keys() - new_rows.keys()),
            "updated": sum(rows[k] != new_rows[k] for k in rows.keys() & new_rows.keys()),
        }
        return counts | _history_effects(
            history(self.accepted, self.rules), history(after, self.rules), self.rules
        )

    def _leaves_its_row(
        self, event: Event, rows: dict[tuple[Any, ...], Row], events: dict[tuple[Any, ...], list[Event]]
    ) -> bool:
        """Whether a late event alone would leave the current rows as they were."""
        if event.op == TRUNCATE:
            return current([*self.accepted, event], self.rules) == rows
        key = self.rules.key_of(event.row)
        truncates = [e for e in self.accepted if e.op == TRUNCATE] if key not in events else []
        own = [*events.get(key, truncates), event]
        return current(own, self.rules).get(key) == rows.get(key)


def _history_effects(before: list[Row], after: list[Row], rules: Rules) -> dict[str, int]:
    old = {(rules.key_of(r), ranks(r["_order_from"])): r for r in before}
    new = {(rules.key_of(r), ranks(r["_order_from"])): r for r in after}
    changed = [(old[i], new[i]) for i in old.keys() & new.keys() if old[i] != new[i]]
    closed = [1 for a, b in changed if a["_order_to"] is None and b["_order_to"] is not None]
    return {
        "opened": len(new.keys() - old.keys()),
        "removed": len(old.keys() - new.keys()),
        "closed": len(closed),
        "rewritten": len(changed) - len(closed),
    }
