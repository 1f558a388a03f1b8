"""What a reader sees of a table at any moment: whole batches, never half of one."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from kedro_lakehouse.ops.report import bookmark_of
from simulator.engine import FOLDS, same_rows

if TYPE_CHECKING:
    from kedro_lakehouse.names import TableName
    from simulator.world import World


def half_of_something(world: World, table: TableName, found: Any, write: str | None) -> str | None:
    """What a reader who opens this table now would see that is not whole; None where all is.

    A change log holds of each batch as many events as its commit counted; a target holds the fold of all
    batches up to its bookmark. A target is not looked at while its batch is none of the present change
    log's (a rebuild or rollback is under way), nor once events were withdrawn: a run then folds it anew.

    Args:
        write: How the declared table is written, where this is one; None for a change log or quarantine.
    """
    bookmark = bookmark_of(found.properties)
    if bookmark is None:
        return "rows without a bookmark" if found.rows else None
    if table.table.endswith("_changes"):
        return _half_of_a_batch(found)
    log = world.lake.tables.get(table.with_suffix("changes"))
    batches = {(r.batch, r.content_hash) for r, _ in log.commits} if log else set()
    if write is None or (bookmark.batch, bookmark.content_hash) not in batches or _withdrawn(world, table):
        return None
    expected = FOLDS[write]([e for e in log.rows if e["_batch"] <= bookmark.batch])
    if same_rows(found.rows, expected):
        return None
    return f"{len(found.rows)} rows with batch {bookmark.batch}, the fold has {len(expected)}"


def _half_of_a_batch(log: Any) -> str | None:
    committed = +Counter({r.batch: r.counts["applied"] for r, _ in log.commits})
    there = Counter(e["_batch"] for e in log.rows)
    return None if there == committed else f"{dict(there)} events by batch, {dict(committed)} were committed"


def _withdrawn(world: World, table: TableName) -> bool:
    return any(r["table"] == str(table) for r in world.ops.tables["decisions"])
