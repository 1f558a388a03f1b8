"""The record of changes, kept for a time only."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from kedro_lakehouse.datasets.base import DeclaredDataset

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kedro_lakehouse.names import TableName


class RetentionDataset(DeclaredDataset):
    """The record of changes under its table's ``changes_retention``: saving trims it.

    Example:
        In YAML::

            "{namespace}.{table}.retention":
              type: kedro_lakehouse.datasets.RetentionDataset
              table: "{namespace}.{table}"
    """

    role: ClassVar[str] = "retention"

    @property
    def _stored(self) -> TableName:
        return self._name.with_suffix("changes")

    def load(self) -> DataFrame:
        """The record of changes as it is kept."""
        return self.project.format_of(self._name).read(self._stored)

    def save(self, data: DataFrame) -> None:
        """Trim the record; what is saved says only that it is there."""
        from kedro_lakehouse.datasets.trim import trim_changes

        del data
        trim_changes(self.project, self._name)
