"""What a table format offers for putting a table's files in order, and how it tells of it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from kedro_lakehouse.config.maintenance import CompactConfig, TableMaintenanceConfig
    from kedro_lakehouse.names import TableName

Work = Literal[
    "compact",
    "rewrite_position_deletes",
    "rewrite_manifests",
    "expire_snapshots",
    "remove_orphan_files",
    "archive_landed_files",
]


@dataclass(frozen=True, kw_only=True)
class Storage:
    """What a table consists of, as its newest metadata tells: files of rows, of deletes, lists, snapshots.

    Units:
        bytes: of the files of the newest snapshot, data and deletes.
    """

    files: int
    delete_files: int
    bytes: int
    manifests: int
    snapshots: int


@dataclass(frozen=True, kw_only=True)
class Action:
    """One thing that is due: how many files (or snapshots) it is about, and their bytes where known."""

    work: Work
    files: int
    bytes: int
    reason: str


def compaction(sizes: Iterable[tuple[str, int]], settings: CompactConfig, target: int) -> list[Action]:
    """One action for the small files of all partitions that have enough of them.

    Args:
        sizes: Of each data file its partition and its bytes.
        settings: From how many files on, and below which fraction of ``target``.
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
    """What was due for one stored table, and what it consisted of before and after.

    ``after`` equals ``before`` where nothing was due, or nothing was done because it was a dry run.
    """

    table: str
    actions: Sequence[Action]
    before: Storage
    after: Storage


class Maintenance(Protocol):
    """How a format puts a table's files in order; rows, bookmark and properties stay what they are.

    The caller holds the table's leases.
    """

    def storage(self, table: TableName) -> Storage | None:
        """What a table consists of, from its metadata; None where there is no such table. Starts no JVM."""

    def plan(self, table: TableName, settings: TableMaintenanceConfig) -> Sequence[Action]:
        """What is due, in the order in which it is to be done; nothing below the thresholds.

        Metadata alone is asked, and the listing of the table's folder: no job, and no JVM where the format
        can. A table in which something is staged has nothing due.
        """

    def perform(self, table: TableName, action: Action, settings: TableMaintenanceConfig) -> None:
        """Do one thing that is due.

        Raises:
            CommitConflictError: A writer was faster; nothing was changed.
        """


@runtime_checkable
class MaintainsTables(Protocol):
    """A table format that puts the files of its tables in order."""

    maintenance: Maintenance
