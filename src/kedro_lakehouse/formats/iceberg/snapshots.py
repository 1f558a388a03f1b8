"""Snapshots of Iceberg tables: listed from metadata; named, and rolled back to, in one Java commit."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any

from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.formats.base import is_stage_branch
from kedro_lakehouse.formats.iceberg.stage import load_table, swap_metadata
from kedro_lakehouse.formats.snapshots import Snapshot
from kedro_lakehouse.session.catalog import rows_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from pyspark.sql import SparkSession

    from kedro_lakehouse.formats.base import TableState
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.session.catalog import MetadataCatalog


class IcebergSnapshots:
    """The snapshots of tables in catalog ``lake``."""

    def __init__(self, session: Callable[[], SparkSession], catalog: MetadataCatalog) -> None:
        """Store how to open Java's tables and the catalog; nothing is opened yet."""
        self._session, self._catalog = session, catalog

    def list(self, table: TableName) -> Sequence[Snapshot]:
        """The snapshots that can still be read, newest first; without the head of an open stage.

        A stage may consist of several snapshots: of those published with it, readers only ever saw the last.
        The parent of a snapshot is the nearest ancestor that is listed.
        """
        from pyiceberg.table.snapshots import ancestors_of

        found = self._catalog.find(table)
        if found is None:
            return []
        main = {s.snapshot_id for s in ancestors_of(found.current_snapshot(), found.metadata)}
        # When readers first saw each state, in milliseconds; its snapshot was made earlier, on its stage.
        published = {entry.snapshot_id: entry.timestamp_ms for entry in reversed(found.history())}
        names, staged = dict[int, list[str]](), set[int]()
        for name, ref in found.refs().items():
            if is_stage_branch(name):
                staged.add(ref.snapshot_id)
            elif name != "main":
                names.setdefault(ref.snapshot_id, []).append(name)
        parents = {s.snapshot_id: s.parent_snapshot_id for s in found.metadata.snapshots}
        within = main - published.keys() - names.keys()
        hidden = within | (staged - main)
        shown = [
            (published.get(s.snapshot_id, s.timestamp_ms), s.sequence_number or 0, s)
            for s in found.metadata.snapshots
            if s.snapshot_id not in hidden
        ]
        return [
            Snapshot(
                snapshot_id=s.snapshot_id,
                parent_id=_ancestor(s.parent_snapshot_id, parents, within),
                committed_at=dt.datetime.fromtimestamp(moment / 1000, dt.UTC),
                operation=s.summary.operation.value if s.summary else "",
                rows=rows_of(s),
                on_main=s.snapshot_id in main,
                names=sorted(names.get(s.snapshot_id, [])),
            )
            for moment, _, s in sorted(shown, key=lambda one: one[:2], reverse=True)
        ]

    def published_at(self, table: TableName, time: dt.datetime) -> int | None:
        """The snapshot that readers saw at a time; None if the metadata does not reach back that far."""
        found = self._catalog.find(table)
        limit = time.timestamp() * 1000
        log = found.history() if found is not None else []
        seen = [entry.snapshot_id for entry in log if entry.timestamp_ms <= limit]
        return seen[-1] if seen else None

    def tag(self, table: TableName, name: str, snapshot_id: int) -> None:
        """Tag a snapshot, so that it does not expire; an existing tag of this name moves to it.

        Raises:
            UnsupportedError: A branch has the name.
        """
        manage, is_new = self._manage(table, name, "tag")
        (manage.createTag if is_new else manage.replaceTag)(name, snapshot_id).commit()

    def branch(self, table: TableName, name: str, snapshot_id: int) -> None:
        """Start a branch at a snapshot, to change its rows separately; a branch of this name starts anew.

        Raises:
            UnsupportedError: A tag has the name.
        """
        manage, is_new = self._manage(table, name, "branch")
        (manage.createBranch if is_new else manage.replaceBranch)(name, snapshot_id).commit()

    def forget(self, table: TableName, name: str) -> None:
        """Remove a tag or a branch."""
        handle = load_table(self._session(), table)
        manage = handle.manageSnapshots()
        (manage.removeTag if handle.refs().get(name).isTag() else manage.removeBranch)(name).commit()

    def _manage(self, table: TableName, name: str, kind: str) -> tuple[Any, bool]:
        """Java's builder for changes of the table's tags and branches, and whether the name is new."""
        handle = load_table(self._session(), table)
        taken = handle.refs().get(name)
        if taken is not None and taken.isTag() != (kind == "tag"):
            raise UnsupportedError(
                what=f"{table}: {name} is the name of a {'tag' if taken.isTag() else 'branch'}.",
                remedy="Choose another name, or take that one away with --delete.",
            )
        return handle.manageSnapshots(), taken is None

    def roll_back(
        self, table: TableName, snapshot_id: int, properties: Mapping[str, str], *, planned_on: TableState
    ) -> None:
        """Publish an earlier snapshot again and set ``properties`` in one commit; empty ones are removed.

        Raises:
            CommitConflictError: The table is no longer in the planned state; nothing was changed.
        """

        def change(transaction: Any, _: Any) -> None:
            transaction.manageSnapshots().setCurrentSnapshot(snapshot_id).commit()
            update = transaction.updateProperties()
            for key, value in properties.items():
                (update.set(key, value) if value else update.remove(key))
            update.commit()

        swap_metadata(self._session(), table, planned_on.version, change)


def _ancestor(at: int | None, parents: Mapping[int, int | None], passed: Collection[int]) -> int | None:
    """The nearest of a snapshot and its ancestors that is not passed over."""
    while at is not None and at in passed:
        at = parents.get(at)
    return at
