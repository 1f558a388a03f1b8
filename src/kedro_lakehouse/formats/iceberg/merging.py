"""Make one file of a partition's small ones, in the commit that adds the next.

A table that gets a few rows every second would else have a file for each of these commits until it is
maintained, and readers open each of them. A tiny table is written anew instead, where rows of it change.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.formats.iceberg.rows import is_plain

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import FileScanTask, Table

_TINY: Final = 2**18
"""Bytes of a table's data files together up to which a change of its rows writes all of them anew."""
_SMALL: Final = 2**20
"""Bytes below which a data file is small."""
_MANY_OF_ONE: Final = 2
"""With so many files of deletes a small file is written anew, whatever its rows."""
_MANY: Final = 4
"""So many small files of a partition, their files of deletes counted too, become fewer."""
_MUCH_LARGER: Final = 3
"""A file that has so many times the rows of all smaller ones together stays as it is."""
_MOST_BYTES: Final = 8 * 2**20
"""So many bytes are written anew by one commit at most."""
_MOST_FILES: Final = 500
"""A table of more data files is left to maintenance: it would take longer to look at all of them."""


@dataclass
class SmallFile:
    """A small data file, with what deletes rows of it and of no other file."""

    task: FileScanTask
    deletes: int

    @property
    def rows(self) -> int:
        """How many rows it has, deleted ones too."""
        return int(self.task.file.record_count)

    @property
    def is_much_deleted(self) -> bool:
        """Whether readers open many files to know which of its rows are deleted."""
        return self.deletes >= _MANY_OF_ONE


def may_merge(table: Table) -> bool:
    """Whether a table has so few files that looking at each of them is little work; reads only metadata."""
    snapshot = table.current_snapshot()
    summary = snapshot.summary if snapshot is not None else None
    files = summary["total-data-files"] if summary is not None else None
    return files is not None and int(files) <= _MOST_FILES


def is_tiny(table: Table, tasks: Sequence[FileScanTask]) -> bool:
    """Whether a change of rows writes all data files of a table to one, instead of files of deletes.

    Args:
        table: The table as it is before the commit.
        tasks: All its data files, with the files that delete rows of them.
    """
    plain = all(is_plain(delete) for task in tasks for delete in task.delete_files)
    small = plain and all(_is_small(table, task.file) for task in tasks)
    return small and len(tasks) < _MANY and sum(t.file.file_size_in_bytes for t in tasks) <= _TINY


def files_to_merge(
    table: Table, tasks: Iterable[FileScanTask], added: Sequence[FileScanTask], deleted_from: Iterable[str]
) -> list[FileScanTask]:
    """The small files of each partition that become one.

    A file stays that has many more rows than all smaller ones together: so a row is written again only when
    its file's rows have grown by a third, a few times in all, or when its file has many files of deletes.

    Args:
        table: The table as it is before the commit.
        tasks: All its data files, with the files that delete rows of them.
        added: The data files that the commit adds.
        deleted_from: The paths of the data files of which the commit deletes rows.
    """
    stored, now = list(tasks), set(deleted_from)
    shared = Counter(delete.file_path for task in stored for delete in task.delete_files)
    parts: dict[tuple[object, ...], list[SmallFile]] = defaultdict(list)
    for task in [*stored, *added]:
        alone = all(is_plain(d) and shared[d.file_path] == 1 for d in task.delete_files)
        if alone and _is_small(table, task.file):
            partition = tuple(task.file.partition[i] for i in range(len(table.spec().fields)))
            here = len(task.delete_files) + (task.file.file_path in now)
            parts[partition].append(SmallFile(task, here))
    return [file.task for small in parts.values() for file in _merged(small)]


def _is_small(table: Table, file: DataFile) -> bool:
    ours = is_plain(file) and file.spec_id == table.spec().spec_id
    return ours and file.file_size_in_bytes < _SMALL


def _merged(small: list[SmallFile]) -> list[SmallFile]:
    """The files that become one; none, where they are few."""
    if sum(1 + file.deletes for file in small) < _MANY:
        return []
    found: list[SmallFile] = []
    rows = size = 0
    for file in sorted(small, key=lambda s: s.rows):
        is_apart = bool(found) and file.rows > _MUCH_LARGER * rows
        size += file.task.file.file_size_in_bytes
        if size > _MOST_BYTES:
            break
        if not is_apart or file.is_much_deleted:
            found.append(file)
            rows += file.rows
    return found if len(found) > 1 or any(file.deletes for file in found) else []
