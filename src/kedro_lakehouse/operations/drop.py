"""Drop a table: all that is stored of it, and what the project recorded about its batches."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kedro_lakehouse.commits.runner import leases
from kedro_lakehouse.formats.view import view_name
from kedro_lakehouse.monitoring.table_status import summary_of
from kedro_lakehouse.names import DROP_ORDER, TableName
from kedro_lakehouse.ops.store import BATCH_LEDGER, BATCHES, SCHEMAS_OF_RECORDS

if TYPE_CHECKING:
    from kedro_lakehouse.lake_table import LakeTable

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What is stored of a declared table: tables with row counts, its view, and rows of ``lake.ops``."""

    table: TableName
    rows: dict[str, int]
    view: TableName | None
    batches: int
    planned: int

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to drop."""
        return not (self.rows or self.view or self.batches or self.planned)


def stored(table: LakeTable) -> Stored:
    """Look up in metadata what is stored of a table."""
    found = {role: summary_of(table, role) for role in DROP_ORDER}
    declared = table.config.history
    view = view_name(table.name, declared.view) if declared and declared.view else None
    return Stored(
        table=table.name,
        rows={str(table.stored(role)): seen.rows for role, seen in found.items() if seen is not None},
        view=view if table.in_catalog and view and table.environment.catalog.view_exists(view) else None,
        batches=len(table.ops.read(BATCHES, of_table=str(table))),
        planned=sum(bool(r["files"]) for r in table.ops.read(BATCH_LEDGER, of_table=str(table))),
    )


def drop_table(table: LakeTable) -> Stored:
    """Drop everything that is stored of a table, including its files; return what was dropped.

    First, one commit to the ledger marks the table as given up. If this is killed afterwards, the next run
    finishes the drop and begins anew. ``lake.ops.runs`` keeps what runs did.

    Raises:
        CommitConflictError: Another writer changed ``lake.ops`` at every attempt; drop again to continue.
    """
    with leases(table, "ingestion", "current", "history"):
        found = stored(table)
        tables = [TableName(*text.split(".")) for text in found.rows]
        epoch = None
        if tables or found.planned:
            epoch = table.open_ledger().begin_again(filter(None, map(table.format.uuid, tables)))
        if found.view:
            table.environment.catalog.drop_view(found.view)
        for name in tables:
            if table.in_catalog:  # without a JVM
                table.environment.catalog.purge(name)
            else:
                table.format.drop(name)
        table.ops.forget(BATCHES, of_table=str(table))
        # A registry that is made anew, as its topic may be, gives its numbers to other schemas.
        table.ops.forget(SCHEMAS_OF_RECORDS, of_table=str(table))
        if epoch is not None:
            # The row of the new epoch stays: a run that planned before it cannot bring the table back.
            table.ops.forget(BATCH_LEDGER, of_table=str(table), before=("epoch", epoch))
    logger.info("%s: dropped %s", table, ", ".join(found.rows) or "its rows of lake.ops")
    return found
