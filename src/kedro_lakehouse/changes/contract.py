"""What a table promises about its events: the part of a declaration that pure functions need."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from kedro_lakehouse.config.enrich import enriched_columns

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName

OnTie = Literal["delete_wins", "upsert_wins", "fail"]


@dataclass(frozen=True, kw_only=True)
class TableContract:
    """How events of a table are checked, ordered and folded.

    ``received_names`` maps a column's name in the table to its name in the source, where they differ.
    """

    table: str
    keys: tuple[str, ...]
    on_tie: OnTie = "delete_wins"
    track_include: tuple[str, ...] | None = None
    track_exclude: tuple[str, ...] | None = None
    checks: Mapping[str, str] = field(default_factory=dict)
    received_names: Mapping[str, str] = field(default_factory=dict)
    hard_deletes: Literal["close", "ignore", "tombstone"] = "close"
    order_by: tuple[str, ...] = ()
    effective_time: str | None = None
    write: Literal["merge", "append", "replace"] = "merge"
    ignore_null: tuple[str, ...] | Literal["*"] = ()
    unset_marker: str | None = None
    valid_from: str | None = None
    updated_at: str | None = None
    delete_scope: tuple[str, ...] = ()
    surrogate_key: bool = False
    looked_up: tuple[str, ...] = ()
    """The columns that come from references: they do not tell one event from another."""

    def tracked(self, columns: Iterable[str]) -> list[str]:
        """The columns whose change opens a new version; never keys; order and time only if listed."""
        values = [c for c in columns if c not in self.keys]
        if self.track_include is not None:
            return [c for c in values if c in self.track_include]
        values = [c for c in values if c not in (*self.order_by, self.valid_from, self.updated_at)]
        if self.track_exclude is not None:
            return [c for c in values if c not in self.track_exclude]
        return values

    def ignores_null(self, column: str) -> bool:
        """Whether a null in this column means that its value stays."""
        return column not in self.keys and (self.ignore_null == "*" or column in self.ignore_null)

    @classmethod
    def of(cls, name: TableName, table: TableConfig) -> TableContract:
        """Build the contract from a table's declaration."""
        history = table.history
        received: dict[str, str] = {}
        for old, new in table.rename.items():
            received.setdefault(new, old)
        return cls(
            table=str(name),
            keys=tuple(table.keys),
            on_tie=table.on_tie,
            track_include=history.track_include if history else None,
            track_exclude=history.track_exclude if history else None,
            checks=dict(table.checks),
            received_names=received,
            hard_deletes=table.hard_deletes,
            order_by=tuple(table.order_by),
            effective_time=table.effective_time,
            write=table.write,
            ignore_null=table.ignore_null,
            unset_marker=table.unset_marker,
            valid_from=table.valid_from.column,
            updated_at=table.valid_from.updated_at,
            delete_scope=table.delete_scope,
            looked_up=enriched_columns(table.enrich),
            surrogate_key=bool(history and history.view and history.view.surrogate_key),
        )
