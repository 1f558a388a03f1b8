"""The change log as targets are folded from it: without the events that a decision excluded."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from kedro_lakehouse.changes.digest import surrogate_key
from kedro_lakehouse.changes.events import BATCH, ORDER, POSITION, column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from kedro_lakehouse.changes.plan import MergePlan
    from kedro_lakehouse.commits.token import BatchToken
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.ops.decisions import ExcludedEvent

_FILE, _ROW, _DIGEST = "__file", "__row", "__digest"
_NO_ROW: Final = -1


def accepted_events(table: LakeTable) -> DataFrame:
    """The accepted events of a table without its excluded events; all of them if there is no decision.

    Returns:
        A lazy frame: calling this function starts no Spark job.
    """
    return without(table.read("changes"), table.decisions.excluded(table.name), table.config.keys)


def pending_events(table: LakeTable, plan: MergePlan, token: BatchToken) -> DataFrame:
    """The events of a plan up to the batch of its token, without the excluded ones."""
    events = plan.events.where(column(BATCH) <= token.batch)
    return without(events, table.decisions.excluded(table.name), table.config.keys)


def without(events: DataFrame, excluded: Sequence[ExcludedEvent], keys: Sequence[str]) -> DataFrame:
    """Leave out the excluded events: each by its file, row and digest, or all events of a file."""
    files = sorted({w.file for w in excluded if w.digest is None})
    if files:
        of_files = F.coalesce(column(POSITION)["file"].isin(files), F.lit(False))
        events = events.where(~of_files)
    single = sorted(
        {(w.file, _NO_ROW if w.row is None else w.row, w.digest) for w in excluded if w.digest is not None}
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
    """A 64-bit digest of an event's key and order; it stays the same when the type of either is widened."""
    return surrogate_key(events, keys, ORDER)


def row_of_record() -> Column:
    """The row number of an event's raw record in its file; -1 where it had none."""
    return F.coalesce(column(POSITION)["row"], F.lit(_NO_ROW))
