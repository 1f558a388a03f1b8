"""The reference tables of a table with ``enrich``, each read at the snapshot that the ledger names."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kedro_lakehouse.changes.lookup import Lookup
from kedro_lakehouse.formats.ddl import Clash, clash, storable, widened
from kedro_lakehouse.names import TableName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql import types as T

    from kedro_lakehouse.formats.base import TableState
    from kedro_lakehouse.lake_table import LakeTable

logger = logging.getLogger(__name__)


class References:
    """The reference tables of one table."""

    def __init__(self, table: LakeTable) -> None:
        """Bind the reference tables; none of them is read yet."""
        self._table = table
        self._entries = [(entry, table.bind(TableName.parse(entry.table))) for entry in table.config.enrich]

    @property
    def repairs(self) -> bool:
        """Whether a later change of a reference changes rows."""
        return self._table.config.repairs_rows

    def snapshots(self) -> dict[str, int] | None:
        """The newest snapshot of each reference, by its stored table; None as long as one does not exist."""
        found: dict[str, int] = {}
        for stored, state in self._states():
            if state is None or state.snapshot_id is None:
                logger.info("%s waits: its reference %s does not exist yet", self._table, stored)
                return None
            found[stored] = state.snapshot_id
        return found

    def holds(self, snapshots: Mapping[str, int]) -> bool:
        """Whether the references can still be read at these snapshots."""
        return all(
            reference.format.holds_snapshot(entry.stored, snapshots[str(entry.stored)])
            for entry, reference in self._entries
            if str(entry.stored) in snapshots
        )

    def kinds(self, existing: Mapping[str, T.DataType]) -> dict[str, T.DataType]:
        """The types of the columns that come from references, wide enough for the values that are there.

        Raises:
            IncompatibleTypeError: A reference's type would lose values in the table's, and no type fits both.
        """
        found: dict[str, T.DataType] = {}
        for (entry, _), (stored, state) in zip(self._entries, self._states(), strict=True):
            there = state.columns if state else {}
            for source, name in entry.columns.items():
                if source in there:
                    found[name] = self._wide_enough(name, existing.get(name), there[source], stored)
        return found

    def lookups(self, snapshots: Mapping[str, int], kinds: Mapping[str, T.DataType]) -> list[Lookup]:
        """The lookups of the table, each in its reference at one of these snapshots, as lazy frames.

        A reference that was declared after the batch was planned is read as it is now.
        """
        lacks = any(str(entry.stored) not in snapshots for entry, _ in self._entries)
        at = {**(self.snapshots() or {}), **snapshots} if lacks else snapshots
        return [
            Lookup(
                reference=entry.table,
                rows=self._rows(reference, entry.stored, at[str(entry.stored)]),
                on=entry.on,
                columns=entry.columns,
                kinds=kinds,
                by_time=entry.as_of == "event",
            )
            for entry, reference in self._entries
        ]

    def _rows(self, reference: LakeTable, stored: TableName, snapshot: int) -> DataFrame:
        """The rows of a reference at a snapshot, as a lazy frame."""
        rows = reference.format.rows_at(stored, snapshot)
        return self._table.session.sql(f"SELECT * FROM {rows}")  # noqa: S608 - a checked name and a number

    def _wide_enough(
        self, name: str, existing: T.DataType | None, there: T.DataType, stored: str
    ) -> T.DataType:
        wider = storable(there) if existing is None else widened(existing, there)
        if wider is None:
            assert existing is not None  # noqa: S101 - else there is nothing that it could clash with
            found = clash(name, existing, there) or Clash(path=(name,), existing=existing, incoming=there)
            raise found.error(self._table.name, place=stored)
        return wider

    def _states(self) -> Iterator[tuple[str, TableState | None]]:
        for entry, reference in self._entries:
            yield str(entry.stored), reference.format.state(entry.stored)
