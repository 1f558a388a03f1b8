"""Where a stored table stands, read from its metadata alone: no data file, no JVM."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from kedro_lakehouse.ops.report import BOOKMARK, HELD, CommitReport

if TYPE_CHECKING:
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.names import Role, TableName
    from kedro_lakehouse.session.catalog import MetadataCatalog


@dataclass(frozen=True, kw_only=True)
class Glance:
    """What a table's metadata tell of its published state.

    Units:
        size: bytes of the data files.
    """

    rows: int = 0
    columns: int = 0
    size: int = 0
    batch: int = 0
    committed: datetime | None = None
    held: bool = False


@runtime_checkable
class Glanceable(Protocol):
    """A table format whose metadata can be read without a JVM."""

    def glance(self, table: TableName) -> Glance | None:
        """Where a stored table stands; None where there is no such table."""


_STAGES: Final = {
    "changes": "ingestion",
    "quarantine": "ingestion",
    "current": "current",
    "history": "history",
}
_COUNTED: Final = {
    "changes": ("applied", None),
    "quarantine": ("quarantined", None),
    "current": ("inserted", "deleted"),
    "history": ("opened", "removed"),
}


def glance_of(table: LakeTable, role: Role) -> Glance | None:
    """Where a stored table of a declared one stands; None where there is no such table.

    Formats that only a JVM can read are known by ``lake.ops.batches``: what their commits counted.
    """
    stored = table.stored(role)
    if table.format_name == "iceberg":  # without Spark's types, which take half a second
        return glance(table.environment.catalog, stored)
    table_format = table.environment.format(table.format_name)
    if isinstance(table_format, Glanceable):
        return table_format.glance(stored)
    return _counted(table, role)


def _counted(table: LakeTable, role: Role) -> Glance | None:
    from kedro_lakehouse.ops.store import BATCHES  # it brings Arrow: a quarter of a second

    commits = [r for r in table.ops.read(BATCHES, of_table=str(table)) if r["stage"] == _STAGES[role]]
    more, less = _COUNTED[role]
    if not commits or (role == "quarantine" and not any(r[more] for r in commits)):
        return None
    rows = sum((r[more] or 0) - ((less and r[less]) or 0) for r in commits)
    last = max(commits, key=lambda r: r["committed_at"])
    return Glance(rows=rows, batch=last["batch"], committed=last["committed_at"])


def glance(catalog: MetadataCatalog, name: TableName) -> Glance | None:
    """Read where a stored table stands; None where there is no such table."""
    found = catalog.find(name)
    if found is None:
        return None
    snapshot = found.current_snapshot()
    facts = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    bookmark = CommitReport.from_property(found.properties.get(BOOKMARK))
    return Glance(
        rows=int(facts.get("total-records", 0)) - int(facts.get("total-position-deletes", 0)),
        columns=len(found.schema().fields),
        size=int(facts.get("total-files-size", 0)),
        batch=bookmark.batch if bookmark else 0,
        committed=datetime.fromisoformat(bookmark.committed_at) if bookmark else None,
        held=bool(found.properties.get(HELD)),
    )
