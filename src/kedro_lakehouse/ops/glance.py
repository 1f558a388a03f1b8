"""Where a stored table stands, by metadata alone: no data file, no JVM, no Spark types."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.ops.report import BOOKMARK, CommitReport

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    )


_COUNTED: Final[Mapping[str, tuple[str, str, str | None]]] = {
    "changes": ("ingestion", "applied", None),
    "quarantine": ("ingestion", "quarantined", None),
    "current": ("current", "inserted", "deleted"),
    "history": ("history", "opened", "removed"),
}
"""The stage that writes a stored table, and its counts of rows that come and go."""


def glance_of_batches(batches: Sequence[Mapping[str, Any]], role: Role) -> Glance | None:
    """Work out where a stored table stands from the rows of ``lake.ops.batches`` of its declared table.

    For formats whose metadata only their own reader can read: the counts of all its commits, added up.
    """
    stage, come, go = _COUNTED[role]
    own = [row for row in batches if row["stage"] == stage]
    if not own:
        return None
    rows = sum((row[come] or 0) - (row[go] or 0 if go else 0) for row in own)
    newest = max(own, key=lambda row: int(row["batch"]))
    return Glance(rows=rows, batch=newest["batch"], committed=newest["committed_at"])
