"""Read views of the record: the batches that a target does not have yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kedro_lakehouse.datasets.base import DeclaredDataset
from kedro_lakehouse.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kedro_lakehouse.names import Role, TableName


class PendingDataset(DeclaredDataset):
    """The accepted events that the current or history table does not have yet.

    Loading fixes which batches these are: events that arrive later are the next run's. A table that
    is up to date gives an empty frame.

    Example:
        In YAML::

            "{namespace}.{table}.pending_current":
              type: kedro_lakehouse.datasets.PendingDataset
              table: "{namespace}.{table}"
              target: current
    """

    role: ClassVar[str] = "pending"

    def __init__(self, *, table: str, target: Role, metadata: dict[str, Any] | None = None) -> None:
        """Keep the names: nothing is read yet."""
        super().__init__(table=table, metadata=metadata)
        self._target: Role = target

    @property
    def _stored(self) -> TableName:
        return self._name.with_suffix("changes")

    def load(self) -> DataFrame:
        """A lazy frame of change events; starts no Spark job."""
        from pyspark.sql import functions as F

        from kedro_lakehouse.changes.events import BATCH
        from kedro_lakehouse.datasets.token import BatchToken
        from kedro_lakehouse.datasets.withdrawn import accepted_events

        lake = self.project.format_of(self._name)
        record, target = lake.state(self._stored), lake.state(self._name.with_suffix(self._target))
        last, after = record.batch if record else 0, target.batch if target else 0
        hashed = record.bookmark.content_hash if record and record.bookmark else ""
        token = BatchToken(table=str(self._name), batch=last, after=after, content_hash=hashed)
        if record is None or last <= after:
            return token.mark(self.project.session.createDataFrame([], "_op string, _batch bigint"))
        events = accepted_events(self.project, self._name)
        return token.mark(events.where((F.col(BATCH) > after) & (F.col(BATCH) <= last)))

    def save(self, data: DataFrame) -> None:
        """Refuse: pending events are a view of the record."""
        del data
        raise UnsupportedError(
            what=f"Saving to the pending events of {self._name}.", remedy="Save to the dataset 'changes'."
        )
