"""A table of a query at one of its published snapshots."""

from __future__ import annotations

from dataclasses import dataclass

from kedro_lakehouse.names import SNAPSHOT_ID


@dataclass(frozen=True, kw_only=True)
class Pin:
    """One published snapshot of a table, as its files are found.

    Attributes:
        snapshot: Its id, as the service names it.
        state: The state of the table that is read, by Iceberg's own number; None: the present one.
        partition: Whether the snapshot is the rows that have its id in ``_snapshot_id``, and not all rows.
    """

    snapshot: str
    state: int | None = None
    partition: bool = False

    @property
    def column(self) -> str | None:
        """The column whose value is the snapshot's id; None where the snapshot is all rows."""
        return SNAPSHOT_ID if self.partition else None
