"""What Iceberg metadata says about a table's files, read without a JVM."""

from __future__ import annotations

import math
import os
from collections import defaultdict
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote_plus

from kedro_lakehouse.formats.base import commits_of_batches, is_stage_branch
from kedro_lakehouse.formats.maintenance import Storage, modified_at
from kedro_lakehouse.ops.report import BOOKMARK

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from kedro_lakehouse.config.maintenance import ExpireConfig
    from kedro_lakehouse.ops.report import CommitReport

_TARGET_BYTES: Final = 512 * 2**20
_MANIFEST_BYTES: Final = 8 * 2**20
_READ_WITHIN: Final = timedelta(minutes=5)
"""How long a snapshot stays for its readers where a table has too many."""
_PATH_ID: Final = 2147483546
"""Field of a delete file that names the data file (Iceberg's specification, reserved field ids)."""


@dataclass
class PartitionFiles:
    """Of one partition: the bytes of files that a compaction takes, and the delete files of the others."""

    small: list[int] = field(default_factory=list)
    with_deletes: list[int] = field(default_factory=list)
    delete_files: set[str] = field(default_factory=set)


def storage(table: Table) -> Storage:
    """The number of files, bytes, manifests and snapshots, by the newest snapshot's summary and manifests."""
    snapshot = table.current_snapshot()
    counts = snapshot.summary.additional_properties if snapshot and snapshot.summary else {}
    return Storage(
        files=int(counts.get("total-data-files", 0)),
        delete_files=int(counts.get("total-delete-files", 0)),
        bytes=int(counts.get("total-files-size", 0)),
        manifests=len(snapshot.manifests(table.io)) if snapshot else 0,
        snapshots=len(table.metadata.snapshots),
    )


def last_change(table: Table) -> Snapshot | None:
    """The newest snapshot that changed rows: a rewrite of files is skipped as long as its parent exists."""
    return _last_change(table.metadata)


def _last_change(metadata: TableMetadata) -> Snapshot | None:
    from pyiceberg.table.snapshots import ancestors_of

    snapshot = None
    for snapshot in ancestors_of(metadata.current_snapshot(), metadata):
        if not snapshot.summary or snapshot.summary.operation.value != "replace":
            break
    return snapshot


def earlier_commits(table: Table) -> Iterator[tuple[CommitReport, int | None]]:
    """Our commits that a table's metadata files still hold, newest first, each with its snapshot.

    Lazy: a metadata file is read only when it is needed. The first file that was deleted ends the list.
    """
    return commits_of_batches((m.properties.get(BOOKMARK), _changed_by(m)) for m in _metadata(table))


def _changed_by(metadata: TableMetadata) -> int | None:
    snapshot = _last_change(metadata)
    return snapshot.snapshot_id if snapshot is not None else None


def _metadata(table: Table) -> Iterator[TableMetadata]:
    from pyiceberg.serializers import FromInputFile

    yield table.metadata
    for entry in reversed(table.metadata.metadata_log):
        try:
            yield FromInputFile.table_metadata(table.io.new_input(entry.metadata_file))
        except FileNotFoundError:
            return


def is_staged_on(table: Table) -> bool:
    """Whether some run has a stage on the table: it is at work, or it died and the next run cleans up."""
    return any(is_stage_branch(name) for name in table.refs())


def target_bytes(table: Table) -> int:
    """The bytes that each of the table's files should have."""
    return int(table.properties.get("write.target-file-size-bytes", _TARGET_BYTES))


def partition_files(
    table: Table, *, small_below: float, deleted_fraction: float
) -> Mapping[Hashable, PartitionFiles]:
    """By partition: bytes of small files, bytes of files with many deleted rows, and other delete files."""
    limit = small_below * target_bytes(table)
    found: dict[Hashable, PartitionFiles] = defaultdict(PartitionFiles)
    for task in table.scan().plan_files():
        file, part = task.file, found[task.file.spec_id, repr(task.file.partition)]
        own = [d.record_count for d in task.delete_files if _is_of_one_file(d)]
        if own and sum(own) >= deleted_fraction * file.record_count:
            part.with_deletes.append(file.file_size_in_bytes)
            continue
        part.delete_files |= {d.file_path for d in task.delete_files}
        if file.file_size_in_bytes < limit:
            part.small.append(file.file_size_in_bytes)
    return found


def _is_of_one_file(deletes: DataFile) -> bool:
    """Whether a delete file or deletion vector is about one data file: only these count as its own."""
    # The smallest and the largest path of a data file in it are equal, so it names only one.
    lower, upper = deletes.lower_bounds or {}, deletes.upper_bounds or {}
    return _PATH_ID in lower and lower[_PATH_ID] == upper.get(_PATH_ID)


def dangling_deletes(table: Table) -> int:
    """Number of delete files or vectors that no data file needs any more: a rewrite of data left them."""
    named = {
        (deletes.file_path, (deletes.lower_bounds or {}).get(_PATH_ID))
        for task in table.scan().plan_files()
        for deletes in task.delete_files
    }
    return max(storage(table).delete_files - len(named), 0)


def wasteful_manifests(table: Table, at_least: int) -> tuple[int, int]:
    """Number and bytes of manifests, if ``at_least`` exist and half of them could be spared; else 0, 0."""
    snapshot = table.current_snapshot()
    manifests = snapshot.manifests(table.io) if snapshot else []
    target = int(table.properties.get("commit.manifest.target-size-bytes", _MANIFEST_BYTES))
    size = sum(m.manifest_length for m in manifests)
    contents = {(m.content, m.partition_spec_id) for m in manifests}
    needed = math.ceil(size / target) + len(contents)
    return (len(manifests), size) if len(manifests) >= at_least and 2 * needed <= len(manifests) else (0, 0)


def expiry_limit(table: Table, settings: ExpireConfig, now: dt.datetime) -> dt.datetime:
    """The time before which snapshots expire: by their age, or later where there are too many of them."""
    by_age = now - settings.older_than
    times = sorted(s.timestamp_ms for s in table.metadata.snapshots)
    if len(times) <= settings.most:
        return by_age
    oldest_kept = datetime.fromtimestamp(times[-(settings.most // 2)] / 1000, UTC)
    return max(by_age, min(oldest_kept, now - _READ_WITHIN))


def expired_snapshots(table: Table, *, before: dt.datetime, keep: int) -> list[Snapshot]:
    """Snapshots older than ``before``, of no tag or branch, and not among the ``keep`` newest of ``main``."""
    from pyiceberg.table.snapshots import ancestors_of

    kept = {ref.snapshot_id for ref in table.refs().values()}
    kept |= {s.snapshot_id for s in islice(ancestors_of(table.current_snapshot(), table.metadata), keep)}
    limit = int(before.timestamp() * 1000)
    return [s for s in table.metadata.snapshots if s.timestamp_ms < limit and s.snapshot_id not in kept]


def orphan_files(table: Table, *, before: dt.datetime) -> Mapping[str, int]:
    """Files in the table's folder older than ``before`` that none of its metadata names, with their bytes.

    Hidden files and folders are not the table's, but the folder of a partition may be called ``_op=upsert``.
    """
    import fsspec

    fs, root = fsspec.core.url_to_fs(table.location())
    if not fs.isdir(root):
        return {}
    known = {_path(name) for name in _named(table)}
    partitions = tuple(f"{quote_plus(f.name)}=" for spec in table.specs().values() for f in spec.fields)
    old: dict[str, int] = {}
    for name, facts in fs.find(root, detail=True).items():
        hidden = any(
            part.startswith(("_", ".")) and not part.startswith(partitions)
            for part in name.removeprefix(root).split("/")
        )
        if not hidden and modified_at(facts) < before.timestamp() and _path(name) not in known:
            old[name] = int(facts["size"])
    return old


def _path(name: str) -> str:
    return os.path.normpath(name.partition(":")[2] if ":" in name.partition("/")[0] else name).lstrip("/")


def _named(table: Table) -> Iterable[str]:
    """Every file that the metadata of any snapshot names."""
    yield table.metadata_location
    for entry in table.metadata.metadata_log:
        yield entry.metadata_file
    for statistics in table.metadata.statistics:
        yield statistics.statistics_path
    seen: set[str] = set()
    for snapshot in table.metadata.snapshots:
        yield snapshot.manifest_list
        for manifest in snapshot.manifests(table.io):
            if manifest.manifest_path in seen:
                continue
            seen.add(manifest.manifest_path)
            yield manifest.manifest_path
            entries: Sequence[Any] = manifest.fetch_manifest_entry(table.io, discard_deleted=False)
            yield from (entry.data_file.file_path for entry in entries)


def literal(value: object, *, zoned: bool) -> Any:
    """A value as pyiceberg compares it with bounds; ``zoned`` is it for a column of times with a zone."""
    if zoned and isinstance(value, datetime):
        value = value.astimezone(UTC)  # Spark gives times with a zone as naive local ones
    return value.isoformat() if isinstance(value, date) else value
