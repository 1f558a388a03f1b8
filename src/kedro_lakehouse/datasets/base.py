"""What every dataset of a declared table shares."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kedro.io import AbstractDataset

from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.names import TableName
from kedro_lakehouse.project import active_project

if TYPE_CHECKING:
    from kedro_lakehouse.datasets.viz import TablePreview
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.names import Role
    from kedro_lakehouse.project import Project


class ReadOnlyDataset(AbstractDataset[Any, Any]):
    """A dataset that is loaded and never saved; a subclass names itself, and what to do instead."""

    _itself: ClassVar[str]
    """In the words of the error; ``{}`` stands for the name of its table or suite."""
    _instead: ClassVar[str] = "Load it only."

    def __init__(self, *, metadata: dict[str, Any] | None = None) -> None:
        """Keep nothing: the project is looked up when it is used."""
        self.metadata = metadata

    def save(self, data: object) -> None:
        """Refuse.

        Raises:
            UnsupportedError: Always.
        """
        del data
        itself = self._itself.format(getattr(self, "_name", ""))
        raise UnsupportedError(what=f"Saving to {itself}.", remedy=self._instead)


class DeclaredDataset(AbstractDataset[Any, Any]):
    """A dataset that knows its table's name, and looks the declaration up when it is used."""

    _SINGLE_PROCESS = True  # a Spark session cannot cross process borders
    role: ClassVar[str]
    _stored_as: Role = "current"
    """Which of the table's stored tables it is about."""

    def __init__(self, *, table: str, metadata: dict[str, Any] | None = None) -> None:
        """Keep the name: no declaration is read, no session or catalog opened."""
        self._name = TableName.parse(table)
        self.metadata = metadata

    @property
    def project(self) -> Project:
        """The running project."""
        return active_project()

    @property
    def table(self) -> LakeTable:
        """The table, bound to the running project."""
        return self.project.bind(self._name)

    def _describe(self) -> dict[str, Any]:
        # An allow-list: a credential added later can never leak through repr or logs.
        return {"filepath": str(self._stored), "role": self.role}

    @property
    def _stored(self) -> TableName:
        return self._name.with_suffix(self._stored_as)

    def _preview(self, nrows: int, *framework: str) -> TablePreview:
        from kedro_lakehouse.datasets.viz import preview_rows

        return preview_rows(self.project, self._name, self._stored, nrows=nrows, framework=framework)

    def _exists(self) -> bool:
        return self.table.format.state(self._stored) is not None
