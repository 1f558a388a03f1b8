"""Where every declared table stands, from metadata alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Literal

from kedro_lakehouse.ops.report import BOOKMARK, CommitReport

if TYPE_CHECKING:
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Where one table stands; None where the declaration keeps no such table.

    ``lag`` is the number of recorded batches that current or history do not have yet.
    """

    table: str
    state: Literal["empty", "up to date", "behind"]
    rows: int | None
    history_rows: int | None
    batch: int
    current_batch: int | None
    history_batch: int | None
    lag: int
    last_commit: datetime | None
    quarantined: int


def standing(project: Project, name: TableName, table: TableConfig) -> Standing:
    """Read where a table stands from the metadata of what belongs to it."""
    changes = _glance(project, name.with_suffix("changes"))
    current = _glance(project, name) if table.current else None
    history = _glance(project, name.with_suffix("history")) if table.history else None
    targets = [target for target in (current, history) if target]
    commits = [glance.committed for glance in (changes, *targets) if glance.committed]
    lag = max((changes.batch - target.batch for target in targets), default=0)
    return Standing(
        table=str(name),
        state="empty" if not commits else "behind" if lag > 0 else "up to date",
        rows=current.rows if current else None,
        history_rows=history.rows if history else None,
        batch=changes.batch,
        current_batch=current.batch if current else None,
        history_batch=history.batch if history else None,
        lag=max(lag, 0),
        last_commit=max(commits, default=None),
        quarantined=_glance(project, name.with_suffix("quarantine")).rows,
    )


@dataclass(frozen=True)
class _Glance:
    rows: int = 0
    batch: int = 0
    committed: datetime | None = None


def _glance(project: Project, name: TableName) -> _Glance:
    """Rows and bookmark of a stored table; IcebergFormat.state tells them too, but loads Spark's types."""
    found = project.catalog.find(name)
    if found is None:
        return _Glance()
    snapshot, bookmark = found.current_snapshot(), CommitReport.from_property(found.properties.get(BOOKMARK))
    counts = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    rows = int(counts.get("total-records", 0)) - int(counts.get("total-position-deletes", 0))
    if bookmark is None:
        return _Glance(rows=rows)
    return _Glance(rows, bookmark.batch, datetime.fromisoformat(bookmark.committed_at))
