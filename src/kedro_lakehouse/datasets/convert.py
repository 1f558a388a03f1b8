"""A table of convert.yml as a Kedro dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kedro.io import AbstractDataset

from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import active_project

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ConvertedDataset(AbstractDataset[Any, Any]):
    """A table of convert.yml: loading gives its rows, saving the signal of the node adds new files.

    Example:
        In YAML::

            "{namespace}.{table}.converted":
              type: kedro_lakehouse.datasets.ConvertedDataset
              table: "{namespace}.{table}"
    """

    _SINGLE_PROCESS = True  # a Spark session cannot cross process borders
    role: ClassVar[str] = "converted"

    def __init__(self, *, table: str, metadata: dict[str, Any] | None = None) -> None:
        """Keep the name: no declaration is read, no session or catalog opened."""
        self._name, self.metadata = TableName.parse(table), metadata

    def load(self) -> DataFrame:
        """The table as a lazy frame."""
        frame: DataFrame = active_project().format_of(self._name).read(self._name)
        return frame

    def save(self, data: bool) -> None:  # noqa: FBT001 - a dataset's save has one positional argument
        """Add the files that the table lacks."""
        from kedro_lakehouse.commits.conversion import convert

        if data:
            convert(active_project(), self._name)

    def _describe(self) -> dict[str, Any]:
        return {"filepath": str(self._name), "role": self.role}

    def _exists(self) -> bool:
        return active_project().format_of(self._name).state(self._name) is not None
