"""The summary of a stored table, read from its metadata alone: no data file, no JVM."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from kedro_lakehouse.ops.report import BOOKMARK, HELD, CommitReport

if TYPE_CHECKING:
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.session.catalog import MetadataCatalog


@dataclass(frozen=True, kw_only=True)
class TableSummary:
    """The published state of a table, as its metadata describe it.

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

    def glance(self, table: TableName) -> TableSummary | None:
        """The summary of a stored table; None where there is no such table."""


def glance(catalog: MetadataCatalog, name: TableName) -> TableSummary | None:
    """Read the summary of a stored table; None where there is no such table."""
    found = catalog.find(name)
    if found is None:
        return None
    snapshot = found.current_snapshot()
    facts = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    bookmark = CommitReport.from_property(found.properties.get(BOOKMARK))
    return TableSummary(
        rows=int(facts.get("total-records", 0)) - int(facts.get("total-position-deletes", 0)),
        columns=len(found.schema().fields),
        size=int(facts.get("total-files-size", 0)),
        batch=bookmark.batch if bookmark else 0,
        committed=datetime.fromisoformat(bookmark.committed_at) if bookmark else None,
        held=bool(found.properties.get(HELD)),
    )
