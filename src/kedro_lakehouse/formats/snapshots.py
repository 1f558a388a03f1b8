"""The interface for a table's snapshots: list them, name them, and roll back to one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.formats.base import TableState
    from kedro_lakehouse.names import TableName


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """A state of a table that can still be read; ``on_main`` if the published state descends from it."""

    snapshot_id: int
    parent_id: int | None
    committed_at: dt.datetime
    operation: str
    rows: int
    on_main: bool
    names: Sequence[str] = ()


class Snapshots(Protocol):
    """How a format lists and names the snapshots of a table, and rolls back to one."""

    def list(self, table: TableName) -> Sequence[Snapshot]:
        """The snapshots that can still be read, newest first; starts no JVM.

        Among those that are not ``on_main`` are states that were never published, such as a dropped stage.
        """

    def published_at(self, table: TableName, time: dt.datetime) -> int | None:
        """The snapshot that readers saw at a time; None if the metadata does not reach back that far."""

    def tag(self, table: TableName, name: str, snapshot_id: int) -> None:
        """Tag a snapshot, so that it does not expire; an existing tag of this name moves to it.

        Raises:
            UnsupportedError: A branch has the name.
        """

    def branch(self, table: TableName, name: str, snapshot_id: int) -> None:
        """Start a branch at a snapshot, to change its rows separately; a branch of this name starts anew.

        Raises:
            UnsupportedError: A tag has the name.
        """

    def forget(self, table: TableName, name: str) -> None:
        """Remove a tag or a branch."""

    def roll_back(
        self, table: TableName, snapshot_id: int, properties: Mapping[str, str], *, planned_on: TableState
    ) -> None:
        """Publish an earlier snapshot again and set ``properties`` in one commit; empty ones are removed.

        Raises:
            CommitConflictError: The table is no longer in the planned state; nothing was changed.
        """


@runtime_checkable
class KeepsSnapshots(Protocol):
    """A table format that can roll its tables back to earlier snapshots."""

    snapshots: Snapshots
