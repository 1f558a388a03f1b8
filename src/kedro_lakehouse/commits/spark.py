"""The rows of a project's tables, computed by Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kedro_lakehouse.changes.contract import TableContract
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
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project


class SparkEngine:
    """Rows are frames of the project's session."""

    def __init__(self, project: Project) -> None:
        """Keep the project; its session is started at first use."""
        self._project = project

    def events(
        self, name: TableName, accepted: DataFrame, rejected: DataFrame, token: BatchToken
    ) -> EventFrames:
        """The checked events of one batch of a table."""
        contract = TableContract.of(name, self._project.table(name))
        lake = self._project.format_of(name)
        return EventFrames(lake, contract, token, accepted=accepted, rejected=rejected)

    def pending(self, name: TableName, *, after: int, upto: int) -> DataFrame:
        """The accepted events of some batches, lazily."""
        if upto <= after:
            return self._project.session.createDataFrame([], "_op string, _batch bigint")
        events = accepted_events(self._project, name)
        return events.where((F.col(BATCH) > after) & (F.col(BATCH) <= upto))

    def merged(self, name: TableName, kind: Kind, pending: DataFrame, token: BatchToken) -> MergeFrames:
        """A target of a table with keys after its pending events."""
        return MergeFrames(self._project, name, kind, pending, token)

    def added(self, name: TableName, pending: DataFrame, token: BatchToken) -> PlainFrames:
        """The current table of a table without keys after its pending events."""
        return PlainFrames(self._project, name, pending, token)

    def folded(self, name: TableName, kind: Kind, upto: int) -> FoldFrames:
        """A target as the whole change log up to a batch makes it."""
        return FoldFrames(self._project, name, kind, upto)

    def quarantined(self, name: TableName, *, before: int, more: DataFrame | None = None) -> DataFrame:
        """The quarantined rows of the batches before one, and more rows of quarantine beside them."""
        held = self._project.format_of(name).read(name.with_suffix("quarantine"))
        kept = held.where(column(BATCH) < before)
        return kept if more is None else kept.unionByName(more)
