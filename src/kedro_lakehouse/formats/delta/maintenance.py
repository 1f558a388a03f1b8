"""Maintenance of Delta tables: planned from the log, done by Delta's own OPTIMIZE and VACUUM."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.formats.delta.api import cloned_session, delta_tables
from kedro_lakehouse.formats.maintenance import Action, Storage, compaction, races_lost_by

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Callable, Sequence

    from delta.tables import DeltaTable
    from pyspark.sql import SparkSession

    from kedro_lakehouse.config.maintenance import TableMaintenanceConfig
    from kedro_lakehouse.formats.delta.log import DeltaLog
    from kedro_lakehouse.formats.turn import TakeTurn
    from kedro_lakehouse.names import TableName

RACED: Final = ("DELTA_CONCURRENT", "DELTA_METADATA_CHANGED", "DELTA_PROTOCOL_CHANGED")
_TARGET: Final = "delta.targetFileSize"
_TARGET_BYTES: Final = 128 * 2**20
_CHECKED: Final = "spark.databricks.delta.retentionDurationCheck.enabled"


class DeltaMaintenance:
    """Maintains the files of Delta tables; every entry of the log stays, and with it the bookmarks.

    Two kinds of work are not planned here: Delta itself rewrites its lists of files (checkpoints), and a
    compaction drops the rows that deletion vectors hide. Files of old versions and orphan files are
    deleted by one action.
    """

    def __init__(
        self,
        session: Callable[[], SparkSession],
        log: Callable[[TableName], DeltaLog | None],
        path: Callable[[TableName], str],
        turn: TakeTurn,
    ) -> None:
        """Store how to open session and logs, and how writers take turns; nothing is opened yet."""
        self._session, self._log, self._path, self._turn = session, log, path, turn

    def storage(self, table: TableName) -> Storage | None:
        """The table's files and versions, by its log; None if there is no such table."""
        log = self._log(table)
        if log is None:
            return None
        return Storage(files=len(log.files), bytes=log.size(), manifests=1, snapshots=log.version + 1)

    def plan(self, table: TableName, settings: TableMaintenanceConfig) -> Sequence[Action]:
        """The actions that are due, in the order to perform them; starts no JVM."""
        log = self._log(table)
        if log is None:
            return []
        target = int(log.properties.get(_TARGET, _TARGET_BYTES))
        actions = compaction(log.sizes(), settings.compact, target)
        age = _age(settings)
        gone = log.forgotten(age)
        if gone:
            reason = f"{len(gone)} files of no version since {age} ago"
            actions.append(Action(work="expire_snapshots", files=len(gone), bytes=0, reason=reason))
        return actions

    def perform(self, table: TableName, action: Action, settings: TableMaintenanceConfig) -> None:
        """Perform one action that is due.

        Raises:
            CommitConflictError: A writer was faster; nothing was changed.
        """
        with races_lost_by(table, RACED), self._turn(table) as confirm:
            confirm()
            if action.work == "compact":
                self._handle(table, self._session()).optimize().executeCompaction()
            else:
                # Delta's own minimum of a week is switched off: maintenance.yml has its own.
                session = cloned_session(self._session(), {_CHECKED: "false"})
                self._handle(table, session).vacuum(math.ceil(_age(settings).total_seconds() / 3600))

    def _handle(self, table: TableName, session: SparkSession) -> DeltaTable:
        return delta_tables(session).forPath(session, self._path(table))


def _age(settings: TableMaintenanceConfig) -> dt.timedelta:
    """The age from which files are deleted: VACUUM treats old versions' files and orphans alike."""
    return max(settings.expire.older_than, settings.orphans.older_than)
