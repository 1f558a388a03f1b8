"""Old rows leave the current table: which are old, how they come back, and what both tables show together.

The change log is the truth: it folds to the rows of the current table and of the archive together. A key of
which an event arrives after its row has left is folded again from all its events, and the current table gets
its row. So for each key that the change log has an event of since the archive was written, the current table
decides, and for the others the archive may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import BATCH, OP, TRUNCATE, column, columns
from kedro_lakehouse.changes.fold import current_rows
from kedro_lakehouse.changes.plan import ACTION, INSERT, REMOVE, touched_keys

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.contract import TableContract
    from kedro_lakehouse.changes.plan import Target

MOVED: Final = "_moved"
"""Column of an archive: the number of the move that brought the row. Rows of a later move than the current
table's last one do not count: they are still in the current table."""

_LITERALS: Final = {
    "timestamp_ntz": "TIMESTAMP_NTZ '{}'",
    "timestamp": "TIMESTAMP '{} UTC'",
    "date": "DATE '{:.10}'",
}


def old_rows_condition(name: str, kind: str, limit: dt.datetime) -> str:
    """SQL that says whether a row is from before the limit, which is the start of a day (UTC).

    Args:
        name: The column that tells it, as SQL quotes it.
        kind: The type of the column: one of `date`, `timestamp`, `timestamp_ntz`.
        limit: The time before which rows are old.
    """
    moment = limit.replace(tzinfo=None).isoformat(sep=" ")
    return f"{name} < {_LITERALS[kind].format(moment)}"


def rows_that_left(events: DataFrame, target: Target, contract: TableContract) -> DataFrame:
    """The rows that left the current table, of keys that pending events are about, before these events.

    They are folded from the change log. Every key without a row in the current table is looked up there:
    whether it is new, was deleted or left the table is known from nothing else.

    Schema:
        events: pending events, also excluded ones, without truncates.
        target: the current table without its old rows.
        returns: the rows of the current table.
    """
    keys = list(contract.keys)
    touched = touched_keys(events, target, contract)
    held = target.in_key_ranges(target.rows).join(touched, keys, "left_semi").select(*columns(keys))
    absent = events.select(*columns(keys)).distinct().join(held, keys, "left_anti")
    applied = target.past.where(column(BATCH) <= target.bookmark)
    of_keys = target.in_key_ranges(applied.where(column(OP) != TRUNCATE)).join(absent, keys, "left_semi")
    if target.truncates:
        of_keys = of_keys.unionByName(applied.where(column(OP) == TRUNCATE))
    return current_rows(of_keys, contract, truncates=target.truncates)


def with_rows_that_left(changed: DataFrame, left: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Turn changes of a whole table into those of one that lacks some rows: these come back, changed or not.

    Schema:
        changed: the planned changes, with ``_action``, of a current table with the rows that ``left`` it.
        returns: the same for the current table without them.
    """
    marked = left.select(*columns(keys)).withColumn("__left", F.lit(True))
    joined = changed.join(marked, list(keys), "left")
    has_left = F.coalesce(column("__left"), F.lit(False))
    planned = joined.where(~(has_left & (column(ACTION) == REMOVE))).withColumn(
        ACTION, F.when(has_left, F.lit(INSERT)).otherwise(column(ACTION))
    )
    unchanged = left.join(changed.select(*columns(keys)), list(keys), "left_anti")
    back = unchanged.withColumn(ACTION, F.lit(INSERT))
    return planned.drop("__left").unionByName(back, allowMissingColumns=True)


def archived_rows_to_replace(
    archive: DataFrame, touched: DataFrame, moving: DataFrame, keys: Sequence[str], move: int
) -> DataFrame:
    """The rows of an archive that a move removes: the current table decides about them, or they come again.

    Schema:
        archive, touched, keys: as of ``archived_rows_that_count``.
        moving: the old rows of the current table, which the move brings.
        move: the number of the move; rows of this number are of a move that was interrupted.
        returns: keys of the archive; without keys, whole rows.
    """
    left_over = archive.where(column(MOVED) >= move)
    if not keys:
        return left_over
    named = [frame.select(*columns(keys)) for frame in (touched, moving, left_over)]
    replaced = named[0].unionByName(named[1]).unionByName(named[2])
    return archive.select(*columns(keys)).join(replaced, list(keys), "left_semi")


def archived_rows_that_count(
    archive: DataFrame, current: DataFrame, touched: DataFrame, keys: Sequence[str], last_move: int
) -> DataFrame:
    """The rows of an archive that its current table does not decide about.

    Schema:
        archive: the stored archive.
        current: the stored current table.
        touched: the keys of the events of the batches that the current table has and the archive does not.
        keys: the keys; a table without keys has none, and nothing is decided by them.
        last_move: the number of the last move that the current table has.
        returns: rows of the archive, without the number of their move.
    """
    rows = archive.where(column(MOVED) <= last_move).drop(MOVED)
    if keys:
        rows = rows.join(touched, list(keys), "left_anti")
        rows = rows.join(current.select(*columns(keys)), list(keys), "left_anti")
    return rows.select(*columns([name for name in archive.columns if name != MOVED]))
