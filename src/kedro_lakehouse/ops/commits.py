"""One commit to a table of ``lake.ops``: attempted on one table state after another, and made once."""

from __future__ import annotations

import contextlib
import sys
import uuid
from functools import partial
from typing import TYPE_CHECKING, Final

from pyiceberg.io import FileIO, InputFile, OutputFile
from pyiceberg.table import Transaction

from kedro_lakehouse.aws import is_unanswered

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableUpdate

    Change = Callable[[Table, dict[str, str]], None]
    """Commits to a table, with the properties that it is given in the summary of its snapshots."""

_MARK: Final = "kedro_lakehouse.write"
"""Property in the summary of a snapshot that identifies the write which made it."""
_UNANSWERED: Final = 3


class Commit:
    """A change of a table that is made exactly once, even if attempts are repeated after a lost answer.

    ``is_done`` finds out from the table's rows whether the change was made; it is called only where the
    table's snapshots do not show it.
    """

    def __init__(self, change: Change, is_done: Callable[[Table], bool]) -> None:
        """Try nothing yet."""
        self._change, self._is_done = change, is_done
        self._mark = {_MARK: uuid.uuid4().hex}
        self._before: TableMetadata | None = None
        self._leftovers: list[str] = []
        self._unanswered = 0

    def attempt(self, stored: Table) -> None:
        """Make the change on this very state of the table, unless an earlier attempt has made it.

        An earlier attempt that takes effect in between is a conflict, as is any other commit.
        """
        if self._before is not None and self._is_in(stored):
            return
        self._before = self._before or stored.metadata
        _delete(stored.io, self._leftovers)
        files = _DeletesLater(stored.io)
        self._leftovers, stored.io = files.unwanted, files
        # pyiceberg would retry the commit on states that were not looked at. Retries are switched off in this
        # process's copy of the properties only: Spark's maintenance of the same table still retries.
        # Row groups are small: a reader of the rows about one table skips the others.
        once = stored.metadata.properties | {
            "commit.retry.num-retries": "0", "write.parquet.row-group-limit": "5000",
        }  # fmt: skip
        stored.metadata = stored.metadata.model_copy(update={"properties": once})
        stored.transaction = partial(_Transaction, stored)  # type: ignore[method-assign]
        self._change(stored, self._mark)
        _delete(files.wrapped, self._leftovers)

    def _is_in(self, stored: Table) -> bool:
        snapshots = stored.snapshots()
        summaries = [snapshot.summary for snapshot in snapshots]
        if any(s and s.additional_properties.get(_MARK) == self._mark[_MARK] for s in summaries):
            return True
        # Snapshots expire from the oldest on: while the one before the change is there, so is the marked one.
        before = self._before.current_snapshot_id if self._before else None
        known = {s.parent_snapshot_id if before is None else s.snapshot_id for s in snapshots}
        return bool(snapshots) and before not in known and self._is_done(stored)

    def may_be_tried_again(self, error: Exception) -> bool:
        """Whether another writer was faster, or the catalog did not answer; the latter up to three times."""
        from pyiceberg.exceptions import (
            CommitFailedException,
            CommitStateUnknownException,
            ValidationException,
        )

        requests = sys.modules.get("requests.exceptions")  # it cannot be raised before it is imported
        lost = (CommitStateUnknownException, *([requests.ConnectionError] if requests else ()))
        if isinstance(error, lost) or is_unanswered(error):
            self._unanswered += 1
            return self._unanswered <= _UNANSWERED
        return isinstance(error, (CommitFailedException, ValidationException))


class _Transaction(Transaction):
    """A transaction that makes its metadata anew only after an update, not each time that it is looked at.

    pyiceberg copies all of it 24 times for an append: half of the time that the append takes. Before the
    first update it is that of the table: nothing changes metadata in place.
    """

    _made: tuple[TableMetadata, tuple[TableUpdate, ...], TableMetadata] | None = None

    @property
    def table_metadata(self) -> TableMetadata:
        base, updates = self._table.metadata, self._updates
        if not updates:
            return base
        if self._made is None or self._made[0] is not base or self._made[1] is not updates:
            self._made = base, updates, super().table_metadata
        return self._made[2]


class _DeletesLater(FileIO):
    """Reads and writes files with another FileIO, and only notes which ones are to be deleted.

    After a conflict pyiceberg deletes the manifests that it wrote. But a client that gets no answer repeats
    its request by itself, and may then conflict with its own commit, which needs these manifests.
    """

    def __init__(self, wrapped: FileIO) -> None:
        super().__init__(wrapped.properties)
        self.wrapped, self.unwanted = wrapped, list[str]()

    def new_input(self, location: str) -> InputFile:
        return self.wrapped.new_input(location)

    def new_output(self, location: str) -> OutputFile:
        return self.wrapped.new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self.unwanted.append(location if isinstance(location, str) else location.location)


def _delete(files: FileIO, unwanted: list[str]) -> None:
    """Delete files that no snapshot needs; one that cannot be deleted does no harm."""
    for location in unwanted:
        with contextlib.suppress(OSError):
            files.delete(location)
