"""The rows of tables, computed by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import BATCH, column
from kedro_lakehouse.commits.event_frames import EventFrames
from kedro_lakehouse.commits.fold_frames import FoldFrames
from kedro_lakehouse.commits.merge_frames import MergeFrames
from kedro_lakehouse.commits.plain_frames import PlainFrames
from kedro_lakehouse.commits.withdrawn import accepted_events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.plan import Kind
    from kedro_lakehouse.commits.token import BatchToken
    from kedro_lakehouse.lake_table import LakeTable


class SparkEngine:
    """Rows are frames of the session of the table's environment, which is started at first use."""

    def events(
        self, table: LakeTable, accepted: DataFrame, rejected: DataFrame, token: BatchToken
    ) -> EventFrames:
        """The checked events of one batch of a table."""
        return EventFrames(table.format, table.contract, token, accepted=accepted, rejected=rejected)

    def pending(self, table: LakeTable, *, after: int, upto: int) -> DataFrame:
        """The accepted events of some batches, lazily."""
        if upto <= after:
            return table.session.createDataFrame([], "_op string, _batch bigint")
        events = accepted_events(table)
        return events.where((F.col(BATCH) > after) & (F.col(BATCH) <= upto))

    def merged(self, table: LakeTable, kind: Kind, pending: DataFrame, token: BatchToken) -> MergeFrames:
        """A target of a table with keys after its pending events."""
        return MergeFrames(table, kind, pending, token)

    def added(self, table: LakeTable, pending: DataFrame, token: BatchToken) -> PlainFrames:
        """The current table of a table without keys after its pending events."""
        return PlainFrames(table, pending, token)

    def folded(self, table: LakeTable, kind: Kind, upto: int) -> FoldFrames:
        """A target as the whole change log up to a batch makes it."""
        return FoldFrames(table, kind, upto)

    def quarantined(self, table: LakeTable, *, before: int, more: DataFrame | None = None) -> DataFrame:
        """The quarantined rows of the batches before one, and more rows of quarantine beside them."""
        held = table.read("quarantine")
        kept = held.where(column(BATCH) < before)
        return kept if more is None else kept.unionByName(more)
