"""The landing folder of a table: loads planned batches, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kedro_lakehouse.datasets.base import DeclaredDataset, ReadOnlyDataset

if TYPE_CHECKING:
    from collections.abc import Iterator


class LandingDataset(DeclaredDataset, ReadOnlyDataset):
    """The landed files of a table that are in no batch yet, divided into bounded batches.

    Loading gives an iterator. Taking a batch from it writes the batch into the ledger; the next one may be
    taken only after the batch was saved.

    Example:
        In YAML::

            "{namespace}.{table}.landing":
              type: kedro_lakehouse.datasets.LandingDataset
              table: "{namespace}.{table}"
    """

    role: ClassVar[str] = "landing"
    _itself: ClassVar[str] = "the landing folder of {}"
    _instead: ClassVar[str] = "Save to another dataset."

    def load(self) -> Iterator[Any]:
        """Plan batches of the landed files, one by one; no file is listed before the first batch is taken.

        A table whose rows follow their references is repaired first, if these have changed.

        Raises:
            SourceNotFoundError: The landing folder is not there.
            UnreadableFileError: A file is not what it is declared to be.
            BatchContentChangedError: A planned batch's files were replaced before it was done.
            RefusedExtractsError: Extracts were refused; raised after all others were returned.
        """
        from kedro_lakehouse.ingestion.landing import landed_batches
        from kedro_lakehouse.ingestion.repair import repair

        repair(self.table)
        return landed_batches(self.table)

    def _exists(self) -> bool:
        return True
