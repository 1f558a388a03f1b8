"""Events, and the rules that a table declares about them: sections 1, 2 and 3 of the contract."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from model.values import rank, ranks

if TYPE_CHECKING:
    from collections.abc import Mapping

UPSERT, DELETE, TRUNCATE = "upsert", "delete", "truncate"
FROM_THE_ORDER = object()

_STRENGTH = {
    "delete_wins": {TRUNCATE: 0, UPSERT: 1, DELETE: 2},
    "upsert_wins": {TRUNCATE: 0, DELETE: 1, UPSERT: 2},
    "fail": {TRUNCATE: 0, UPSERT: 1, DELETE: 2},
}


@dataclass(frozen=True)
class Event:
    """One event as it was received. Its time is the first element of its order, unless it has its own."""

    op: Any
    order: tuple[Any, ...]
    row: Mapping[str, Any] = field(default_factory=dict)
    at: Any = FROM_THE_ORDER

    @property
    def time(self) -> Any:
        """When the event took effect."""
        return self.order[0] if self.at is FROM_THE_ORDER else self.at


@dataclass(frozen=True, kw_only=True)
class Rules:
    """A declared table. ``columns`` are all of them; ``track`` names the tracked ones (None: all values)."""

    keys: tuple[str, ...]
    columns: tuple[str, ...]
    track: tuple[str, ...] | None = None
    untracked: tuple[str, ...] = ()
    ignore_null: tuple[str, ...] | str = ()
    unset_marker: str | None = None
    on_tie: str = "delete_wins"
    tombstones: bool = False
    received_names: Mapping[str, str] = field(default_factory=dict)

    @property
    def values(self) -> list[str]:
        """The columns beside the keys."""
        return [c for c in self.columns if c not in self.keys]

    @property
    def tracked(self) -> list[str]:
        """The columns whose change opens a new version."""
        if self.track is not None:
            return [c for c in self.values if c in self.track]
        return [c for c in self.values if c not in self.untracked]

    def key_of(self, row: Mapping[str, Any]) -> tuple[Any, ...]:
        """The key of a row."""
        return tuple(row.get(k) for k in self.keys)

    def is_unset(self, value: Any) -> bool:
        """Whether a column holds the marker that says that it was not sent."""
        return self.unset_marker is not None and isinstance(value, str) and value == self.unset_marker

    def inherits(self, column: str, value: Any) -> bool:
        """Whether an upsert with this value leaves the column as it was."""
        ignored = self.ignore_null == "*" or column in self.ignore_null
        return self.is_unset(value) or (value is None and ignored)

    def as_received(self, event: Event) -> list[Any]:
        """The values that ties and repeats are compared by; a delete's row is its key only."""
        names = sorted(self.values, key=lambda c: self.received_names.get(c, c).encode())
        if event.op != UPSERT:
            return [None for _ in names]
        return [None if self.is_unset(event.row.get(n)) else event.row.get(n) for n in names]

    def unsent(self, event: Event) -> tuple[str, ...]:
        """The columns that an upsert did not send, by name."""
        return tuple(n for n in sorted(self.values) if event.op == UPSERT and self.is_unset(event.row.get(n)))

    def strength(self, event: Event) -> tuple[Any, ...]:
        """Of events of one key and order the strongest one decides.

        Rows that differ only in what was not sent compare as equal by the contract; the names of
        those columns come last, so that even then one event decides.
        """
        return (
            _STRENGTH[self.on_tie][event.op],
            ranks(self.as_received(event)),
            rank(event.time),
            self.unsent(event),
        )

    def identity(self, event: Event) -> tuple[Any, ...]:
        """Events of equal identity are exact duplicates."""
        key = () if event.op == TRUNCATE else ranks(self.key_of(event.row))
        row = ranks(self.as_received(event))
        return event.op, key, ranks(event.order), row, self.unsent(event), rank(event.time)

    def reason(self, event: Event) -> str | None:
        """Why an event cannot be applied; of several reasons the first of the contract's list."""
        if event.op not in (UPSERT, DELETE, TRUNCATE):
            return "unknown_op"
        if event.op != TRUNCATE and any(part is None for part in self.key_of(event.row)):
            return "null_key"
        if event.order[0] is None:
            return "null_sequence"
        return None
