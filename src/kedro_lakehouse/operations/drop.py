"""Give up a table: all that is stored of it, and what the project recorded of its batches."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kedro_lakehouse.formats.view import view_name
from kedro_lakehouse.names import DROP_ORDER, TableName
from kedro_lakehouse.ops.glance import glance_of
from kedro_lakehouse.ops.store import BATCH_LEDGER, BATCHES
from kedro_lakehouse.sources.ledger import Ledger

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.project import Project

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Stored:
    """What is stored of a declared table: tables with their rows, its view, and rows of ``lake.ops``."""

    table: TableName
    rows: dict[str, int]
    view: TableName | None
    batches: int
    planned: int

    @property
    def nothing(self) -> bool:
        """Whether there is nothing to drop."""
        return not (self.rows or self.view or self.batches or self.planned)


def stored(project: Project, name: TableName) -> Stored:
    """Look up what is stored of a table, from metadata."""
    found = {role: glance_of(project, name, role) for role in DROP_ORDER}
    declared = project.table(name).history
    view = view_name(name, declared.view) if declared and declared.view else None
    # Other formats' views last as long as a session.
    kept = project.format_name(name) == "iceberg"
    return Stored(
        table=name,
        rows={str(name.with_suffix(role)): seen.rows for role, seen in found.items() if seen is not None},
        view=view if kept and view and project.catalog.view_exists(view) else None,
        batches=len(project.ops.read(BATCHES, of_table=str(name))),
        planned=sum(bool(r["files"]) for r in project.ops.read(BATCH_LEDGER, of_table=str(name))),
    )


def drop_table(project: Project, name: TableName) -> Stored:
    """Drop what is stored of a table, its files with it; what was dropped.

    First the ledger says so, in one commit: after a kill the next run finishes the work, for it takes the
    table as given up and begins anew. ``lake.ops.runs`` keeps what runs did.

    Raises:
        CommitConflictError: Another writer changed ``lake.ops`` each time; dropping again goes on.
    """
    with ExitStack() as held:
        for stage in ("ingestion", "current", "history"):
            held.enter_context(project.lease(name, stage))
        found = stored(project, name)
        tables = [TableName(*table.split(".")) for table in found.rows]
        epoch = None
        if tables or found.planned:
            ledger = Ledger(project.ops, name, project.run_id)
            epoch = ledger.begin_again(_uuids(project, name, tables))
        if found.view:
            project.catalog.drop_view(found.view)
        for table in tables:
            if project.format_name(name) == "iceberg":  # without a JVM
                project.catalog.purge(table)
            else:
                project.format_of(name).drop(table)
        project.ops.forget(BATCHES, of_table=str(name))
        if epoch is not None:
            # The mark of the new epoch stays: a run that planned before it cannot bring the table back.
            project.ops.forget(BATCH_LEDGER, of_table=str(name), before=("epoch", epoch))
    logger.info("%s: dropped %s", name, ", ".join(found.rows) or "its rows of lake.ops")
    return found


def _uuids(project: Project, name: TableName, tables: Sequence[TableName]) -> list[str]:
    if project.format_name(name) != "iceberg":
        return [uuid for uuid in map(project.format_of(name).uuid, tables) if uuid is not None]
    found = [project.catalog.find(table) for table in tables]
    return [str(table.metadata.table_uuid) for table in found if table is not None]
