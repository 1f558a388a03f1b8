"""Read views of the record: the batches that a target does not have yet."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kedro_lakehouse.datasets.base import DeclaredDataset
from kedro_lakehouse.errors import UnsupportedError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.plan import Kind
    from kedro_lakehouse.names import TableName


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

    def __init__(self, *, table: str, target: Kind, metadata: dict[str, Any] | None = None) -> None:
        """Keep the names: nothing is read yet."""
        super().__init__(table=table, metadata=metadata)
        self._target: Kind = target

    @property
    def _stored(self) -> TableName:
        return self._name.with_suffix("changes")

    def load(self) -> DataFrame:
        """A lazy frame of change events; starts no Spark job."""
        from kedro_lakehouse.commits.target import load_pending

        events, token = load_pending(self.project, self._name, self._target)
        frame: DataFrame = token.mark(events)
        return frame

    def save(self, data: DataFrame) -> None:
        """Refuse: pending events are a view of the record."""
        del data
        raise UnsupportedError(
            what=f"Saving to the pending events of {self._name}.", remedy="Save to the dataset 'changes'."
        )
