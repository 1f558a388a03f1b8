"""The batch token: which batches a frame of events contains, stored with its ``_batch`` column."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import Enum
from typing import TYPE_CHECKING, Final, cast

from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import BATCH
from kedro_lakehouse.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame

    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.ops.report import CommitReport

_KEY: Final = "kedro_lakehouse.token"


class NothingLanded(Enum):
    """Takes the place of events if none have landed; saving it does nothing."""

    HERE = "nothing landed"


@dataclass(frozen=True, kw_only=True)
class BatchToken:
    """The batches of a frame: those after ``after`` up to ``batch``, with at least ``at_least`` events."""

    table: str
    batch: int
    after: int
    content_hash: str
    follows: str = ""
    epoch: int = 0
    unchanged: int | None = None
    counted: dict[str, int] | None = None
    at_least: int = 0
    lag_from: str | None = None
    full_load: bool = False
    """Whether the events are the rows of a full load, in which a key has hardly ever two rows."""
    properties: dict[str, str] | None = None
    """Table properties that the batch's commit sets on the change log."""
    log: str = ""
    """The uuid of the change log that pending events come from: a later one may have the same batches."""

    @classmethod
    def at(cls, table: TableName, bookmark: CommitReport | None, *, after: int, log: str = "") -> BatchToken:
        """The token of the batches after ``after`` up to a bookmark; of no batch if there is no bookmark."""
        if bookmark is None:
            return cls(table=str(table), batch=0, after=after, content_hash="")
        return cls(
            table=str(table),
            batch=bookmark.batch,
            after=after,
            content_hash=bookmark.content_hash,
            follows=bookmark.follows,
            epoch=bookmark.epoch,
            log=log,
        )

    def stamp(self, events: DataFrame) -> DataFrame:
        """Give every event of one batch its batch number, and attach this token to the frame."""
        return events.withColumn(
            BATCH, F.lit(self.batch).cast("long").alias(BATCH, metadata={_KEY: asdict(self)})
        )

    def stamp_later(self, make: Callable[[], DataFrame], origin: object) -> DataFrame:
        """A frame of one batch, as ``stamp`` makes it; for our own nodes it is made as in ``read_later``.

        Args:
            make: Makes the events without their batch number.
            origin: What they are made of, for who can do without the frame.
        """
        from kedro_lakehouse.session.later import FrameLater, spark_may_wait

        if not spark_may_wait.get():
            return self.stamp(make())
        return FrameLater(lambda: self.stamp(make()), self, origin)

    def read_later(self, read: Callable[[], DataFrame]) -> DataFrame:
        """A frame of events with this token attached.

        For one of our own nodes it is read when something is first done with it: a run that finds nothing to
        do starts no Spark.
        """
        from kedro_lakehouse.session.later import FrameLater, spark_may_wait

        if not spark_may_wait.get():
            return self.mark(read())
        return FrameLater(lambda: self.mark(read()), self)

    def mark(self, events: DataFrame) -> DataFrame:
        """Attach this token to a frame whose events already have their batch numbers."""
        return events.withColumn(BATCH, F.col(BATCH).alias(BATCH, metadata={_KEY: asdict(self)}))

    @classmethod
    def of(cls, events: DataFrame) -> BatchToken:
        """Read the token that is attached to a frame.

        Raises:
            UnsupportedError: A node dropped or rebuilt the column ``_batch``.
        """
        if (attached := vars(events).get("attached")) is not None:  # it need not be read for that
            return cast("BatchToken", attached)
        metadata = events.schema[BATCH].metadata if BATCH in events.columns else {}
        if _KEY not in metadata:
            raise UnsupportedError(
                what="Events whose column _batch does not say which batch they are.",
                remedy="Let nodes keep the column _batch as it was loaded.",
            )
        return cls(**metadata[_KEY])
