"""All quality results, and the Data Docs that Great Expectations renders from them."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from kedro.io import AbstractDataset

from kedro_lakehouse.datasets.base import ReadOnlyDataset
from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.ops.store import QUALITY_RESULTS
from kedro_lakehouse.project import active_project
from kedro_lakehouse.quality.data_docs import INDEX, render_data_docs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_MARK: Final = "judged_at.txt"
"""File with the validations that the pages show: they are not rendered again for the same ones."""


class QualityResultsDataset(ReadOnlyDataset):
    """Every row of ``lake.ops.quality_results``; read-only.

    Example:
        In YAML::

            quality_results:
              type: kedro_lakehouse.datasets.QualityResultsDataset
    """

    _itself: ClassVar[str] = "the results of quality"

    def _describe(self) -> dict[str, Any]:
        return {"filepath": f"ops.{QUALITY_RESULTS}"}

    def load(self) -> list[dict[str, Any]]:
        """All results, in no order."""
        return active_project().ops.read(QUALITY_RESULTS)


class DataDocsDataset(AbstractDataset[Any, Any]):
    """Great Expectations' Data Docs as a folder of pages; loaded as the address of the first one.

    The folder is a local one, or one of object storage that fsspec knows, such as ``s3://bucket/docs``.

    Example:
        In YAML::

            data_docs:
              type: kedro_lakehouse.datasets.DataDocsDataset
              filepath: data/08_reporting/data_docs
    """

    def __init__(self, *, filepath: str, metadata: dict[str, Any] | None = None) -> None:
        """Keep the folder; nothing is imported."""
        self._folder, self.metadata = filepath, metadata

    def _describe(self) -> dict[str, Any]:
        return {"filepath": self._folder}

    def load(self) -> str:
        """The address of the first page.

        Raises:
            UnsupportedError: The pages were not rendered yet.
        """
        if not self._exists():
            raise UnsupportedError(
                what="There are no Data Docs yet.", remedy="Run `kedro run --pipelines=data_docs`."
            )
        return f"{self._folder}/{INDEX}"

    def save(self, data: Sequence[Mapping[str, Any]]) -> None:
        """Render the results; pages that show them already stay as they are.

        Raises:
            UnsupportedError: Great Expectations is not installed, or nothing was validated yet.
        """
        if not data:
            raise UnsupportedError(
                what="No expectation was validated yet.", remedy="Run `kedro run --pipelines=quality` first."
            )
        shown = "\n".join(sorted({f"{row['suite']} {row['judged_at'].isoformat()}" for row in data}))
        storage, root = self._place()
        mark = f"{root}/{_MARK}"
        if self._exists() and storage.isfile(mark) and storage.cat_file(mark) == shown.encode():
            return
        if "://" not in self._folder:
            render_data_docs(data, Path(self._folder))
        else:
            with tempfile.TemporaryDirectory() as rendered:
                render_data_docs(data, Path(rendered))
                storage.put(f"{rendered}/", f"{root}/", recursive=True)
        storage.pipe_file(mark, shown.encode())

    def _place(self) -> tuple[Any, str]:
        from fsspec.core import url_to_fs

        storage, root = url_to_fs(self._folder)
        storage.invalidate_cache()
        return storage, root

    def _exists(self) -> bool:
        storage, root = self._place()
        return bool(storage.isfile(f"{root}/{INDEX}"))
