"""Make deleted rows of an Iceberg table go from its files, its manifests and its earlier snapshots."""

from __future__ import annotations

import contextlib
import datetime as dt
from typing import TYPE_CHECKING, Final

from pyiceberg.manifest import ManifestContent
from pyiceberg.table.snapshots import ancestors_of

from kedro_lakehouse.errors import CommitConflictError
from kedro_lakehouse.formats.base import is_stage_branch
from kedro_lakehouse.formats.iceberg.files import dangling_deletes, orphan_files
from kedro_lakehouse.formats.iceberg.procedures import (
    RACED,
    as_map,
    call,
    expiry,
    rewrite_of_deletes,
    rewrite_of_manifests,
)
from kedro_lakehouse.formats.iceberg.published import commit_refs, forget_published
from kedro_lakehouse.formats.literals import text
from kedro_lakehouse.formats.maintenance import races_lost_by

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.refs import SnapshotRef
    from pyspark.sql import SparkSession

    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.session.catalog import MetadataCatalog

_ANY_SIZE: Final = 2**60
_MANIFEST_SIZE: Final = "commit.manifest.target-size-bytes"
_OF_DELETED_ROWS: Final = {
    "delete-file-threshold": 1,
    "min-file-size-bytes": 0,
    "max-file-size-bytes": _ANY_SIZE,
    "remove-dangling-deletes": "true",
}
"""Options by which a rewrite takes each file with a deleted row, whatever its size, and no other."""


def purge(
    session: SparkSession, catalog: MetadataCatalog, table: TableName, *, before: dt.datetime
) -> Sequence[str]:
    """Rewrite the files that hold deleted rows, then remove all that only earlier snapshots need.

    Manifests keep the bounds of removed files as deleted entries until they are rewritten. Orphans from
    ``before`` go too: stages of that time cannot be published any more. The branches of such stages are
    dropped, since they would keep the snapshots that they began on.

    Returns:
        What keeps earlier rows and is not ours to remove, a sentence each.

    Raises:
        CommitConflictError: A writer was faster; the call may be repeated.
    """
    found = catalog.find(table)
    if found is None:
        return []
    forget_published(catalog, table)
    found = found.refresh()
    with races_lost_by(table, RACED):
        session.sql(call("rewrite_data_files", table, options=as_map(_OF_DELETED_ROWS))).collect()
        if dangling_deletes(found.refresh()):
            session.sql(rewrite_of_deletes(table, {"rewrite-all": "true"})).collect()
        if _has_deleted_entries(found.refresh()):
            _rewrite_manifests(session, table, found)
    _drop_outdated_stages(found.refresh(), table)
    with races_lost_by(table, RACED):
        _expire(session, table)
    if _outdated_stages(found.refresh()):  # begun on the former state while this one was made
        raise CommitConflictError(table=table, attempts=1)
    _remove_orphans(found.refresh(), before)
    return [_kept_by(table, name, ref.snapshot_ref_type) for name, ref in _other_refs(found)]


def _expire(session: SparkSession, table: TableName) -> None:
    # A minute more: a snapshot of this very moment is older than a time that is read after it.
    limit = dt.datetime.now(dt.UTC) + dt.timedelta(minutes=1)
    session.sql(expiry(table, before=limit, keep=1)).collect()


def _outdated_stages(found: Table) -> list[str]:
    """The branches of stages that do not follow the published snapshot, and so cannot be published."""
    head = found.metadata.current_snapshot_id
    if head is None:
        return []
    stages = [(name, ref.snapshot_id) for name, ref in found.refs().items() if is_stage_branch(name)]
    return [name for name, last in stages if head not in _lineage(found, last)]


def _lineage(found: Table, last: int) -> set[int]:
    """A snapshot and all that came before it."""
    return {one.snapshot_id for one in ancestors_of(found.snapshot_by_id(last), found.metadata)}


def _drop_outdated_stages(found: Table, table: TableName) -> None:
    outdated = _outdated_stages(found)
    if not outdated:
        return
    change = found.manage_snapshots()
    for name in outdated:
        change.remove_branch(name)
    commit_refs(change, table)


def _has_deleted_entries(found: Table) -> bool:
    snapshot = found.current_snapshot()
    manifests = snapshot.manifests(found.io) if snapshot else []
    return any(manifest.deleted_files_count for manifest in manifests)


def _rewrite_manifests(session: SparkSession, table: TableName, found: Table) -> None:
    """Rewrite all manifests.

    Iceberg leaves a single one of data, or of deletes, alone, unless it is larger than it should be. So where
    the data have a single one, it is: then what is made of it is small too.
    """
    snapshot = found.current_snapshot()
    manifests = snapshot.manifests(found.io) if snapshot else []
    declared = found.properties.get(_MANIFEST_SIZE)
    of_data = [one for one in manifests if one.content == ManifestContent.DATA]
    with contextlib.ExitStack() as after:
        if len(of_data) == 1:
            _set(session, table, str(max(min(one.manifest_length for one in manifests) // 2, 1)))
            after.callback(_set, session, table, declared)
        session.sql(rewrite_of_manifests(table)).collect()


def _set(session: SparkSession, table: TableName, value: str | None) -> None:
    change = f"UNSET TBLPROPERTIES ({text(_MANIFEST_SIZE)})"
    if value is not None:
        change = f"SET TBLPROPERTIES ({text(_MANIFEST_SIZE)} = {text(value)})"
    session.sql(f"ALTER TABLE {table.sql} {change}")


def _remove_orphans(found: Table, before: dt.datetime) -> None:
    for path in orphan_files(found, before=before):
        with contextlib.suppress(FileNotFoundError):
            found.io.delete(path)


def _other_refs(found: Table) -> list[tuple[str, SnapshotRef]]:
    return [(name, ref) for name, ref in found.refs().items() if name != "main" and not is_stage_branch(name)]


def _kept_by(table: TableName, name: str, kind: object) -> str:
    word = "branch" if str(kind) == "branch" else "tag"
    return (
        f"{table}: the {word} {name} keeps the rows of its snapshot. If it may go: "
        f"`kedro lakehouse {word} {table} {name} --delete`, then erase again."
    )
