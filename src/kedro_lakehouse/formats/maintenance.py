"""The interface for maintaining a table's files, and the report of what was due and done."""

from __future__ import annotations

import contextlib
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

from kedro_lakehouse.errors import CommitConflictError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from kedro_lakehouse.config.maintenance import CompactConfig, TableMaintenanceConfig
    from kedro_lakehouse.names import TableName

Work = Literal[
    "compact",
    "rewrite_position_deletes",
    "rewrite_manifests",
    "expire_snapshots",
    "remove_orphan_files",
    "archive_landed_files",
    "delete_old_rows",
    "move_old_rows",
    "remove_old_rows",
]


@dataclass(frozen=True, kw_only=True)
class Storage:
    """How many data files, delete files, manifests and snapshots a table has, by its newest metadata.

    Units:
        bytes: size of the newest snapshot's files, data and deletes.
    """

    files: int
    delete_files: int = 0
    bytes: int
    manifests: int = 0
    snapshots: int = 0


@dataclass(frozen=True, kw_only=True)
class Action:
    """One maintenance action that is due: its number of files (snapshots, rows), and their bytes if known."""

    work: Work
    files: int
    bytes: int
    reason: str


def modified_at(facts: Mapping[str, Any]) -> float:
    """When a file was changed, in seconds since the epoch, by what fsspec says of it."""
    modified = facts.get("mtime", facts.get("LastModified", 0))
    return float(modified.timestamp() if hasattr(modified, "timestamp") else modified)


def compaction(sizes: Iterable[tuple[str, int]], settings: CompactConfig, target: int) -> list[Action]:
    """One action for the small files of all partitions that have enough of them; none if there are none.

    Args:
        sizes: Partition and bytes of each data file.
        settings: How many small files are enough, and below which fraction of ``target`` a file is small.
        target: The bytes of a file that is as large as it should be.
    """
    limit = settings.small_below * target
    parts: dict[str, list[int]] = defaultdict(list)
    for partition, size in sizes:
        if size < limit:
            parts[partition].append(size)
    small = [size for part in parts.values() if len(part) >= settings.small_files for size in part]
    if not small:
        return []
    reason = f"{len(small)} files of less than {limit:,.0f} bytes"
    return [Action(work="compact", files=len(small), bytes=sum(small), reason=reason)]


@dataclass(frozen=True, kw_only=True)
class MaintenanceReport:
    """What was due for one stored table, and its storage before and after.

    ``after`` equals ``before`` if nothing was due, or if nothing was done because it was a dry run.
    """

    table: str
    actions: Sequence[Action]
    before: Storage
    after: Storage


class Maintenance(Protocol):
    """How a format maintains a table's files; rows, bookmark and properties do not change.

    The caller holds the table's leases.
    """

    def storage(self, table: TableName) -> Storage | None:
        """The table's files and snapshots, by its metadata; None if there is no such table. Starts no JVM."""

    def plan(self, table: TableName, settings: TableMaintenanceConfig) -> Sequence[Action]:
        """The actions that are due, in the order to perform them; none below the thresholds.

        Reads only metadata and the listing of the table's folder: no Spark job, and no JVM if the format
        can do without. A table with an open stage has nothing due.
        """

    def perform(self, table: TableName, action: Action, settings: TableMaintenanceConfig) -> None:
        """Perform one action that is due.

        Raises:
            CommitConflictError: A writer was faster; nothing was changed.
        """


@contextlib.contextmanager
def races_lost_by(table: TableName, signs: Sequence[str]) -> Iterator[None]:
    """Raise an error of Spark whose text holds one of these signs as ``CommitConflictError``."""
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JJavaError, PySparkException) as error:
        if any(sign in str(error) for sign in signs):
            raise CommitConflictError(table=table, attempts=1) from error
        raise


@runtime_checkable
class MaintainsTables(Protocol):
    """A table format that can maintain the files of its tables."""

    maintenance: Maintenance
