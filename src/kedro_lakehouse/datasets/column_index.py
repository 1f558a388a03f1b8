"""The column index as datasets: the tables to index, the signatures, and the evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from kedro.io import AbstractDataset

from kedro_lakehouse.column_search.embedders.base import ModelName
from kedro_lakehouse.column_search.lake_index import apply_change, pending_index, signature_store
from kedro_lakehouse.column_search.store import SIGNATURES, SignatureChange
from kedro_lakehouse.datasets.base import ReadOnlyDataset
from kedro_lakehouse.project import active_project

if TYPE_CHECKING:
    from kedro_lakehouse.column_search.evaluation import Evaluation
    from kedro_lakehouse.column_search.indexing import PendingIndex


class ColumnTablesDataset(ReadOnlyDataset):
    """The tables of the lake, and the files beside it, whose columns are not indexed in their present state.

    Example:
        In YAML::

            "ops.column_tables":
              type: kedro_lakehouse.datasets.ColumnTablesDataset
    """

    _SINGLE_PROCESS = True  # a Spark session cannot cross process borders

    _itself: ClassVar[str] = "the tables of the column index"

    def load(self) -> PendingIndex:
        """Compare metadata with the index; no row is read and no Spark started.

        Raises:
            ModelNotFoundError: A model's weights are not there.
        """
        return pending_index(active_project())

    def _describe(self) -> dict[str, Any]:
        return {"filepath": "lake.*.*"}


class ColumnSignaturesDataset(AbstractDataset[SignatureChange, list[Any]]):
    """The signatures of all columns, ``lake.ops.column_signatures``.

    Example:
        In YAML::

            "ops.column_signatures":
              type: kedro_lakehouse.datasets.ColumnSignaturesDataset
    """

    _SINGLE_PROCESS = True

    def __init__(self, *, metadata: dict[str, Any] | None = None) -> None:
        """Keep nothing: the project is looked up when it is used."""
        self.metadata = metadata

    def load(self) -> list[Any]:
        """Key, place, version and fingerprint of every signature."""
        return signature_store(active_project()).standing()

    def save(self, data: SignatureChange) -> None:
        """Apply the change to the signatures and their history; nothing is written where nothing changed."""
        apply_change(active_project(), data)

    def _exists(self) -> bool:
        return signature_store(active_project()).snapshot_id() is not None

    def _describe(self) -> dict[str, Any]:
        return {"filepath": str(SIGNATURES)}


class ColumnStudiesDataset(ReadOnlyDataset):
    """The studies that the parameters name, and every model that they evaluate.

    Example:
        In YAML::

            "ops.column_studies":
              type: kedro_lakehouse.datasets.ColumnStudiesDataset
    """

    _itself: ClassVar[str] = "the studies of the column search"

    def load(self) -> Evaluation:
        """Find the studies and open the models; no table is read.

        Raises:
            ModelNotFoundError: A model's weights are not there.
            UnreadableFileError: There is no study where parameters_column_index.yml says.
        """
        from kedro_lakehouse.column_search.evaluation import Evaluation, read_studies

        project = active_project()
        config = project.column_index
        studies = read_studies(Path(config.evaluation.path)) if config.evaluation else []
        embedders = [ModelName.parse(name).open(Path(project.cache)) for name in config.models]
        return Evaluation(studies=studies, embedders=embedders)

    def _describe(self) -> dict[str, Any]:
        return {"filepath": "parameters:column_index.evaluation.path"}
