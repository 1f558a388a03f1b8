"""Maintenance of Iceberg tables: planned from metadata, done by Iceberg's own procedures."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.formats.iceberg.files import (
    dangling_deletes,
    expired_snapshots,
    expiry_limit,
    is_staged_on,
    orphan_files,
    partition_files,
    storage,
    target_bytes,
    wasteful_manifests,
)
from kedro_lakehouse.formats.iceberg.procedures import (
    RACED,
    as_map,
    as_timestamp,
    call,
    expiry,
    rewrite_of_deletes,
    rewrite_of_manifests,
)
from kedro_lakehouse.formats.literals import text
from kedro_lakehouse.formats.maintenance import Action, races_lost_by

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from kedro_lakehouse.config.maintenance import CompactConfig, TableMaintenanceConfig
    from kedro_lakehouse.formats.maintenance import Storage
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.session.catalog import MetadataCatalog

_V3: Final = 3


class IcebergMaintenance:
    """Maintains the files of tables in catalog ``lake``."""

    def __init__(self, session: Callable[[], SparkSession], catalog: MetadataCatalog) -> None:
        """Store how to open the session and the catalog; nothing is opened yet."""
        self._session, self._catalog = session, catalog

    def storage(self, table: TableName) -> Storage | None:
        """The table's files and snapshots, by its metadata; None if there is no such table."""
        found = self._catalog.find(table)
        return storage(found) if found is not None else None

    def plan(self, table: TableName, settings: TableMaintenanceConfig) -> Sequence[Action]:
        """The actions that are due, in the order to perform them; starts no JVM."""
        found = self._catalog.find(table)
        if found is None or found.current_snapshot() is None or is_staged_on(found):
            return []
        now = dt.datetime.now(dt.UTC)
        actions = _rewrites(found, settings.compact)
        count, size = wasteful_manifests(found, settings.manifests.at_least)
        if count:
            reason = f"{count} manifests of {size // count} bytes in the mean"
            actions.append(Action(work="rewrite_manifests", files=count, bytes=size, reason=reason))
        limit = expiry_limit(found, settings.expire, now)
        gone = expired_snapshots(found, before=limit, keep=settings.expire.keep)
        if gone:
            by_age = limit == now - settings.expire.older_than
            why = f"are older than {settings.expire.older_than}" if by_age else "are too many"
            reason = f"{len(gone)} snapshots {why}"
            actions.append(Action(work="expire_snapshots", files=len(gone), bytes=0, reason=reason))
        orphans = orphan_files(found, before=now - settings.orphans.older_than)
        if orphans:
            reason = f"{len(orphans)} files of no snapshot are older than {settings.orphans.older_than}"
            size = sum(orphans.values())
            actions.append(Action(work="remove_orphan_files", files=len(orphans), bytes=size, reason=reason))
        return actions

    def perform(self, table: TableName, action: Action, settings: TableMaintenanceConfig) -> None:
        """Perform one action by Iceberg's procedure; after a compaction, also remove what it leaves over.

        Raises:
            CommitConflictError: A writer was faster; nothing was changed.
        """
        found = self._catalog.find(table)
        if found is None or is_staged_on(found):
            return
        with races_lost_by(table, RACED):
            self._session().sql(_statement(table, found, action, settings)).collect()
            if action.work == "compact":
                self._tidy_up(table, found, settings)

    def _tidy_up(self, table: TableName, found: Table, settings: TableMaintenanceConfig) -> None:
        """Remove deletes that no data file needs any more; merge the manifests of the few remaining files."""
        if dangling_deletes(found.refresh()):
            self._session().sql(rewrite_of_deletes(table, {"rewrite-all": "true"})).collect()
        many, _ = wasteful_manifests(found.refresh(), settings.compact.small_files)
        if many:
            self._session().sql(rewrite_of_manifests(table)).collect()


def _rewrites(found: Table, settings: CompactConfig) -> list[Action]:
    parts = partition_files(
        found, small_below=settings.small_below, deleted_fraction=settings.deleted_fraction
    )
    files = size = deletes = kept_deletes = 0
    for part in parts.values():
        small = part.small if len(part.small) + len(part.with_deletes) >= settings.small_files else []
        taken = [*small, *part.with_deletes]
        files, size, deletes = files + len(taken), size + sum(taken), deletes + len(part.with_deletes)
        if len(part.delete_files) >= settings.small_files:
            kept_deletes += len(part.delete_files)
    actions: list[Action] = []
    if files:
        reason = f"{files - deletes} small files, {deletes} with many deleted rows"
        actions.append(Action(work="compact", files=files, bytes=size, reason=reason))
    elif found.metadata.format_version < _V3:  # in version 3 each data file has one vector: none is left over
        dangling = dangling_deletes(found)
        if kept_deletes or dangling:
            reason = f"{kept_deletes} small files of deletes, {dangling} that no data file needs"
            files = kept_deletes + dangling
            actions.append(Action(work="rewrite_position_deletes", files=files, bytes=0, reason=reason))
    return actions


def _statement(table: TableName, found: Table, action: Action, settings: TableMaintenanceConfig) -> str:
    """The SQL that calls a procedure; it holds only our own words, numbers and checked names."""
    now = dt.datetime.now(dt.UTC)
    if action.work == "compact":
        return _compaction(table, found, settings.compact)
    if action.work == "rewrite_position_deletes":
        every = "true" if dangling_deletes(found) else "false"
        options = {"min-input-files": settings.compact.small_files, "rewrite-all": every}
        return rewrite_of_deletes(table, options)
    if action.work == "rewrite_manifests":
        return rewrite_of_manifests(table)
    if action.work == "expire_snapshots":
        return expiry(table, before=expiry_limit(found, settings.expire, now), keep=settings.expire.keep)
    return call("remove_orphan_files", table, older_than=as_timestamp(now - settings.orphans.older_than))


def _compaction(table: TableName, found: Table, settings: CompactConfig) -> str:
    ordered = not found.sort_order().is_unsorted
    sort = settings.strategy == "sort" or (settings.strategy == "auto" and ordered)
    target = target_bytes(found)
    options: dict[str, Any] = {
        "target-file-size-bytes": target,
        "min-file-size-bytes": int(target * settings.small_below),
        "max-file-size-bytes": target * 2,
        "min-input-files": settings.small_files,
        "delete-ratio-threshold": settings.deleted_fraction,
        "remove-dangling-deletes": "true",
    }
    strategy = text("sort" if sort and ordered else "binpack")
    return call("rewrite_data_files", table, strategy=strategy, options=as_map(options))
