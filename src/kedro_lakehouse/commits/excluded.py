"""The record of changes as tables are folded from it: without the events that a decision withdrew."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from kedro_lakehouse.changes.digest import surrogate_key
from kedro_lakehouse.changes.events import ORDER, POSITION, column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.ops.decisions import ExcludedEvent

_FILE, _ROW, _DIGEST = "__file", "__row", "__digest"
_NO_ROW: Final = -1


def accepted_events(table: LakeTable) -> DataFrame:
    """The accepted events of a table that no decision withdrew; all of them where there is no decision.

    Returns:
        A lazy frame: calling this function starts no Spark job.
    """
    events = table.read("changes")
    return without(events, table.decisions.excluded(table.name), table.config.keys)


def without(events: DataFrame, withdrawn: Sequence[ExcludedEvent], keys: Sequence[str]) -> DataFrame:
    """Leave events out: by the file, row and digest of each, or all those of a file."""
    files = sorted({w.file for w in withdrawn if w.digest is None})
    if files:
        told = F.coalesce(column(POSITION)["file"].isin(files), F.lit(False))
        events = events.where(~told)
    single = sorted(
        {(w.file, _NO_ROW if w.row is None else w.row, w.digest) for w in withdrawn if w.digest is not None}
    )
    if not single:
        return events
    named = events.sparkSession.createDataFrame(single, f"{_FILE} string, {_ROW} bigint, {_DIGEST} bigint")
    same = (
        (column(POSITION)["file"] == column(_FILE))
        & (row_of_record() == column(_ROW))
        & (event_digest(events, keys) == column(_DIGEST))
    )
    return events.join(F.broadcast(named), same, "left_anti")


def event_digest(events: DataFrame, keys: Sequence[str]) -> Column:
    """A 64-bit digest of an event's key and order; a wider type of either keeps it."""
    return surrogate_key(events, keys, ORDER)


def row_of_record() -> Column:
    """The row at which a record stood in its file; -1 where it had none."""
    return F.coalesce(column(POSITION)["row"], F.lit(_NO_ROW))
