"""What a table format offers for going back: a table's snapshots, names for them, and the way back to one."""

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
    """A state of a table that can still be read; ``on_main`` where the published state descends from it."""

    snapshot_id: int
    parent_id: int | None
    committed_at: dt.datetime
    operation: str
    rows: int
    on_main: bool
    names: Sequence[str] = ()


class Snapshots(Protocol):
    """How a format lists, names and goes back to the states of a table."""

    def list(self, table: TableName) -> Sequence[Snapshot]:
        """The snapshots that can still be read, the newest first; starts no JVM.

        Among those that are not ``on_main`` are states that were never published: a stage that was dropped.
        """

    def published_at(self, table: TableName, time: dt.datetime) -> int | None:
        """The snapshot that readers saw at a time; None where metadata does not reach back so far."""

    def tag(self, table: TableName, name: str, snapshot_id: int) -> None:
        """Give a snapshot a name, under which it does not expire; a name that is taken moves.

        Raises:
            UnsupportedError: A branch has the name.
        """

    def branch(self, table: TableName, name: str, snapshot_id: int) -> None:
        """Begin a branch at a snapshot, whose rows can be changed apart; a branch of this name begins anew.

        Raises:
            UnsupportedError: A tag has the name.
        """

    def forget(self, table: TableName, name: str) -> None:
        """Take a tag's or a branch's name away."""

    def roll_back(
        self, table: TableName, snapshot_id: int, properties: Mapping[str, str], *, planned_on: TableState
    ) -> None:
        """Publish an earlier snapshot again, with these properties, in one commit; empty ones are removed.

        Raises:
            CommitConflictError: The table is not in the planned state any more; nothing was changed.
        """


@runtime_checkable
class KeepsSnapshots(Protocol):
    """A table format that can go back to earlier states of its tables."""

    snapshots: Snapshots
