"""The engine that computes the rows of tables: Spark, unless the environment was made with another one."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.plan import Kind, MergePlan
    from kedro_lakehouse.commits.event_frames import EventFrames
    from kedro_lakehouse.commits.fold_frames import FoldFrames
    from kedro_lakehouse.commits.merge_frames import MergeFrames
    from kedro_lakehouse.commits.plain_frames import PlainFrames
    from kedro_lakehouse.commits.rows import Engine
    from kedro_lakehouse.commits.small_events import SmallEvents
    from kedro_lakehouse.commits.small_rows import SmallRows
    from kedro_lakehouse.commits.token import BatchToken
    from kedro_lakehouse.lake_table import LakeTable


def engine_of(table: LakeTable) -> Engine:
    """The engine that computes the rows of a table."""
    if table.environment.engine is None:
        table.environment.engine = SparkEngine()
    return cast("Engine", table.environment.engine)


class SparkEngine:
    """Computes rows as Spark frames, in the session of the table's environment; imports Spark when needed."""

    def events(
        self, table: LakeTable, accepted: DataFrame, rejected: DataFrame, token: BatchToken
    ) -> SmallEvents | EventFrames:
        """The checked events of one batch."""
        from kedro_lakehouse.commits.event_frames import EventFrames
        from kedro_lakehouse.commits.small_events import small_events

        def large() -> EventFrames:
            return EventFrames(table.format, table.contract, token, accepted=accepted, rejected=rejected)

        small = small_events(table, token, accepted=accepted, large=large) if accepted is rejected else None
        return small or large()

    def pending(self, table: LakeTable, *, after: int, upto: int) -> DataFrame:
        """The accepted events of the batches after ``after`` and up to ``upto``, as a lazy frame."""
        from kedro_lakehouse.changes.events import BATCH, column
        from kedro_lakehouse.commits.excluded import accepted_events

        if upto <= after:
            return table.session.createDataFrame([], "_op string, _batch bigint")
        return accepted_events(table).where((column(BATCH) > after) & (column(BATCH) <= upto))

    def truncates(self, table: LakeTable, *, after: int, upto: int) -> bool:
        """Whether some of these batches have a truncate; one Spark job."""
        from kedro_lakehouse.changes.events import OP, TRUNCATE, column

        return not self.pending(table, after=after, upto=upto).where(column(OP) == TRUNCATE).isEmpty()

    def merged(self, table: LakeTable, plan: MergePlan, token: BatchToken) -> SmallRows | MergeFrames:
        """The rows of a target of a table with keys, once the plan's pending events are applied."""
        from kedro_lakehouse.commits.small_rows import small_rows

        if (small := small_rows(table, plan, token)) is not None:
            return small
        from kedro_lakehouse.commits.merge_frames import MergeFrames

        return MergeFrames(table, plan, token)

    def added(self, table: LakeTable, plan: MergePlan, token: BatchToken) -> PlainFrames:
        """The rows of the current table of a table without keys, once the plan's events are applied."""
        from kedro_lakehouse.commits.plain_frames import PlainFrames

        return PlainFrames(table, plan, token)

    def folded(self, table: LakeTable, kind: Kind, upto: int) -> FoldFrames:
        """The rows of a target, folded from the whole change log up to a batch."""
        from kedro_lakehouse.commits.fold_frames import FoldFrames

        return FoldFrames(table, kind, upto)

    def quarantined(self, table: LakeTable, *, before: int, more: DataFrame | None = None) -> DataFrame:
        """The quarantined rows of the batches before ``before``, together with the rows of ``more``."""
        from kedro_lakehouse.changes.events import BATCH, column

        kept = table.read("quarantine").where(column(BATCH) < before)
        return kept if more is None else kept.unionByName(more, allowMissingColumns=True)
