"""Maintenance of stored tables as datasets: files, the change log's retention, converted tables."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from kedro_lakehouse.datasets.base import DeclaredDataset
from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kedro_lakehouse.config.convert import ConvertConfig
    from kedro_lakehouse.config.maintenance import TableMaintenanceConfig
    from kedro_lakehouse.formats.maintenance import MaintenanceReport
    from kedro_lakehouse.names import Role


class MaintenanceDataset(DeclaredDataset):
    """The maintenance that a table's files need: loading says what is due, saving thresholds does it.

    Example:
        In YAML::

            "{namespace}.{table}.maintenance":
              type: kedro_lakehouse.datasets.MaintenanceDataset
              table: "{namespace}.{table}"
    """

    role: ClassVar[str] = "maintenance"

    def __init__(self, *, table: str, metadata: dict[str, object] | None = None) -> None:
        """Keep the name; ``ops.tables`` stands for the project's own tables."""
        self._own = table == "ops.tables"
        if not self._own:
            super().__init__(table=table, metadata=metadata)
        else:
            self._name, self.metadata = TableName.ops("tables"), metadata

    def load(self) -> list[MaintenanceReport]:
        """What is due now by maintenance.yml; nothing is done."""
        return self._done(None, dry_run=True)

    def save(self, data: TableMaintenanceConfig | bool) -> None:  # noqa: FBT001 - a dataset's own signature
        """Do what is due by these thresholds; ``True`` stands for those of maintenance.yml."""
        if not data:
            raise UnsupportedError(
                what=f"Maintenance of {self._name} without thresholds.", remedy="Save True to it."
            )
        self._done(None if data is True else data, dry_run=False)

    def _done(self, thresholds: TableMaintenanceConfig | None, *, dry_run: bool) -> list[MaintenanceReport]:
        from kedro_lakehouse.operations.maintain import maintain_ops, maintain_table  # it imports Spark

        if self._own:
            return maintain_ops(self.project, thresholds, dry_run=dry_run)
        return maintain_table(self.project, self.table, thresholds, dry_run=dry_run)

    def _exists(self) -> bool:
        return False  # Kedro asks whether a node's output is there already: maintenance never is


class RetentionDataset(DeclaredDataset):
    """The change log under its table's ``changes_retention``: saving compacts it.

    Example:
        In YAML::

            "{namespace}.{table}.retention":
              type: kedro_lakehouse.datasets.RetentionDataset
              table: "{namespace}.{table}"
    """

    role: ClassVar[str] = "retention"
    _stored_as: Role = "changes"

    def load(self) -> DataFrame:
        """The change log as it is stored."""
        return self.table.format.read(self._stored)

    def save(self, data: dt.timedelta | DataFrame) -> None:
        """Compact the change log: single events of this time stay; a frame stands for the declared time."""
        from kedro_lakehouse.operations.compact_changes import compact_change_log

        compact_change_log(self.table, data if isinstance(data, dt.timedelta) else None)


class ConvertedDataset(DeclaredDataset):
    """A table of convert.yml: loading gives its rows, saving its declaration adds new files.

    Example:
        In YAML::

            "{namespace}.{table}.converted":
              type: kedro_lakehouse.datasets.ConvertedDataset
              table: "{namespace}.{table}"
    """

    role: ClassVar[str] = "converted"

    def load(self) -> DataFrame:
        """The table as a lazy frame."""
        return self.project.format_of(self._name).read(self._name)

    def save(self, data: ConvertConfig | bool) -> None:  # noqa: FBT001 - a dataset's own signature
        """Add the files of a declaration that the table lacks; ``True`` stands for that of convert.yml."""
        from kedro_lakehouse.operations.convert import convert

        if data:
            convert(self.table if data is True else replace(self.table, conversion=data))

    def _exists(self) -> bool:
        return self.project.format_of(self._name).state(self._name) is not None
