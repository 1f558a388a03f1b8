"""The landing folder of a table: loads planned batches, one after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from kedro_lakehouse.datasets.base import DeclaredDataset
from kedro_lakehouse.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator


class LandingDataset(DeclaredDataset):
    """What has landed for a table and is in no batch yet, cut into bounded batches.

    Loading gives an iterator; taking a batch from it writes the batch into the ledger, and taking
    the next one is only right after the batch was saved.

    Example:
        In YAML::

            "{namespace}.{table}.landing":
              type: kedro_lakehouse.datasets.LandingDataset
              table: "{namespace}.{table}"
    """

    role: ClassVar[str] = "landing"

    def load(self) -> Iterator[Any]:
        """Plan what has landed, batch by batch; nothing is listed before the first is asked for.

        Raises:
            SourceNotFoundError: The landing folder is not there.
            UnreadableFileError: A file is not what it is declared to be.
            BatchContentChangedError: A planned batch's files were replaced before it was done.
            RefusedExtractsError: Extracts were refused; raised after all others were given out.
        """
        from kedro_lakehouse.ingestion.landing import landed_batches

        return landed_batches(self.table)

    def save(self, data: object) -> None:
        """Refuse: files land from outside."""
        del data
        raise UnsupportedError(
            what=f"Saving to the landing folder of {self._name}.", remedy="Save to another dataset."
        )

    def _exists(self) -> bool:
        return True
