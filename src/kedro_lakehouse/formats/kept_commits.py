"""Find the commits of batches among the entries that a format's log or timeline still holds."""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from kedro_lakehouse.ops.report import CommitReport

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


def commits_of_batches(
    entries: Iterable[tuple[str | None, int | None]],
) -> Iterator[tuple[CommitReport, int | None]]:
    """The report of each commit of a batch, and the snapshot that it published; newest first.

    An entry that repeats the bookmark of the one before it in time, such as one that sets a property, is
    no commit of a batch. Lazy: only the entries that the taken commits need are read.

    Args:
        entries: Bookmark and snapshot of each published entry of ours, newest first.
    """
    for bookmark, repeated in groupby(entries, key=lambda entry: entry[0]):
        *_, (_, first) = repeated  # the oldest entry with this bookmark is the commit itself
        if report := CommitReport.from_property(bookmark):
            yield report, first
