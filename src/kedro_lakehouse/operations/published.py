"""Keep the published snapshots of a table readable, as many as are declared, before others expire."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from kedro_lakehouse.errors import counted
from kedro_lakehouse.formats.base import KeepsPublished
from kedro_lakehouse.ops.store import BATCHES

if TYPE_CHECKING:
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.project import Project

logger = logging.getLogger(__name__)


def keep_published(project: Project, table: LakeTable) -> int:
    """Tag the newest published snapshots of a table that declares how many stay; how many tags are new.

    The number is ``keep`` of the table's ``pull``, or ``service.keep`` of service.yml. The caller holds the
    table's leases.

    Raises:
        CommitConflictError: Other writers won each race until the deadline.
    """
    keep = kept_snapshots(project, table)
    if keep is None or not isinstance(table.format, KeepsPublished):
        return 0
    lake = table.format
    stage, stored = ("current", table.name) if table.config.current else ("history", table.stored("history"))
    rows = [row for row in table.ops.read(BATCHES, of_table=str(table)) if row["stage"] == stage]
    rows.sort(key=lambda row: row["committed_at"])
    published = [row["snapshot_id"] for row in rows if row["snapshot_id"] is not None]
    made = table.patience().keep_trying(lambda: lake.keep_published(stored, published, keep))
    if made:
        logger.info("%s: %s of published snapshots", stored, counted(len(made), "new tag"))
    return len(made)


def kept_snapshots(project: Project, table: LakeTable) -> int | None:
    """How many published snapshots of a table stay readable; None where nothing says so."""
    pull = table.config.pull
    return project.service.keep.get(str(table)) or (pull.keep if pull else None)
