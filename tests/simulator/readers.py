"""What a reader sees of a table at any moment: whole batches, never half of one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kedro_lakehouse.ops.report import bookmark_of
from simulator.engine import FOLDS

if TYPE_CHECKING:
    from kedro_lakehouse.names import TableName
    from simulator.world import World

_CHANGES, _QUARANTINE = "_changes", "_quarantine"


def half_of_something(world: World, table: TableName, found: Any, write_modes: dict[str, str]) -> str | None:
    """What a reader who opens this table now would see that is not whole; None where all is.

    A change log holds of each batch as many events as its commit counted; a target holds the fold of all
    batches up to its bookmark. A target is not looked at while its batch is none of the present change
    log's (a rebuild or rollback is under way), nor once events were withdrawn: a run then folds it anew.
    """
    bookmark = bookmark_of(found.properties)
    if bookmark is None or table.table.endswith(_QUARANTINE):
        return "rows without a bookmark" if bookmark is None and found.rows else None
    if table.table.endswith(_CHANGES):
        applied = Counter({r.batch: r.counts["applied"] for r, _ in found.commits})
        there = Counter(e["_batch"] for e in found.rows)
        return (
            None if there == +applied else f"{dict(there)} events by batch, {dict(+applied)} were committed"
        )
    log = world.lake.tables.get(table.with_suffix("changes"))
    batches = {(r.batch, r.content_hash) for r, _ in log.commits} if log else set()
    if log is None or (bookmark.batch, bookmark.content_hash) not in batches or _withdrawn(world, table):
        return None
    expected = FOLDS[write_modes[str(table)]]([e for e in log.rows if e["_batch"] <= bookmark.batch])
    if Counter(map(_text, found.rows)) == Counter(map(_text, expected)):
        return None
    return f"{len(found.rows)} rows with batch {bookmark.batch}, the fold has {len(expected)}"


def _withdrawn(world: World, table: TableName) -> bool:
    return any(r["table"] == str(table) for r in world.ops.tables["decisions"])


def _text(row: dict[str, Any]) -> str:
    return repr(sorted((c, v) for c, v in row.items() if v is not None))
