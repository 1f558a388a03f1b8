"""The signal that a current table is merged, for what must come after it."""

from __future__ import annotations

from typing import ClassVar

from kedro_lakehouse.datasets.base import DeclaredDataset


class PublishedDataset(DeclaredDataset):
    """Whether a current table was published: an input for order only, of tables derived from it.

    Example:
        In YAML::

            "{namespace}.{table}.published":
              type: kedro_lakehouse.datasets.PublishedDataset
              table: "{namespace}.{table}"
    """

    role: ClassVar[str] = "published"

    def load(self) -> bool:
        """Tell whether the table is there, in this run or from an earlier one."""
        return self._exists()

    def save(self, data: bool) -> None:  # noqa: FBT001 - a dataset's save has one positional argument
        """Keep nothing: the table itself is the evidence."""
