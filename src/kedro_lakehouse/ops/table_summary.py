"""The states of a table, and the summary of a stored one, from metadata alone: no data file, no JVM."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

from kedro_lakehouse.ops.report import BOOKMARK, HELD, CommitReport

if TYPE_CHECKING:
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.session.catalog import MetadataCatalog


State = Literal["empty", "running", "failing", "refused", "held", "waiting", "stale", "fresh"]
"""``empty``: nothing was ingested yet. ``running``: a run works on it now. ``failing``: it failed, and no run
of all its nodes has ended well since. ``refused``: its newest extract was refused. ``held``: a rollback keeps
its state. ``waiting``: current or history lack batches of the change log. ``stale``: its last commit is older
than ``stale_after`` allows. ``fresh``: none of these. The first that applies is the state."""


def in_words(state: State, since: datetime | None = None) -> str:
    """A table's state in words, as commands, console and notifiers show it."""
    return state + (f" since {since.astimezone(UTC):%Y-%m-%d %H:%M}" if since else "")


@dataclass(frozen=True, kw_only=True)
class TableSummary:
    """The published state of a table, by its metadata; ``head`` is the identity of its last batch.

    Units:
        size: bytes of the data files.
    """

    rows: int = 0
    columns: int = 0
    size: int = 0
    batch: int = 0
    head: str = ""
    committed: datetime | None = None
    held: bool = False


@runtime_checkable
class Glanceable(Protocol):
    """A table format whose metadata can be read without a JVM."""

    def glance(self, table: TableName) -> TableSummary | None:
        """The summary of a stored table; None where there is no such table."""


def glance(catalog: MetadataCatalog, name: TableName) -> TableSummary | None:
    """Read the summary of a stored table; None where there is no such table."""
    found = catalog.outline(name)
    if found is None:
        return None
    facts = found.summary
    bookmark = CommitReport.from_property(found.properties.get(BOOKMARK))
    return TableSummary(
        rows=int(facts.get("total-records", 0)) - int(facts.get("total-position-deletes", 0)),
        columns=found.columns,
        size=int(facts.get("total-files-size", 0)),
        batch=bookmark.batch if bookmark else 0,
        head=bookmark.content_hash if bookmark else "",
        committed=datetime.fromisoformat(bookmark.committed_at) if bookmark else None,
        held=bool(found.properties.get(HELD)),
    )
