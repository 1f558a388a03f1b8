"""Maintenance of Hudi tables: planned from the file groups, done by Hudi's own table services."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.formats.hudi.commit import RACED
from kedro_lakehouse.formats.hudi.table import SORT
from kedro_lakehouse.formats.hudi.timeline import instant_of
from kedro_lakehouse.formats.literals import text
from kedro_lakehouse.formats.maintenance import Action, Storage, compaction, races_lost_by

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from kedro_lakehouse.config.maintenance import CompactConfig, ExpireConfig, TableMaintenanceConfig
    from kedro_lakehouse.formats.hudi.table import HudiTable
    from kedro_lakehouse.formats.hudi.timeline import FileSlice, HudiTimeline
    from kedro_lakehouse.names import TableName

_TARGET: Final = "hoodie.parquet.max.file.size"
_TARGET_BYTES: Final = 120 * 2**20
_METADATA: Final = "hoodie.metadata.enable"


class HudiMaintenance:
    """Maintains the files of Hudi tables; the newest commit with a bookmark is still one of the project's.

    It clusters small files, compacts the log files of merge-on-read tables into base files, and cleans the
    files of old commits. Hudi itself archives its timeline, and cleans by its own defaults, when it commits.
    """

    def __init__(
        self, table: Callable[[TableName], HudiTable], register: Callable[[TableName], object]
    ) -> None:
        """Store how to get a table, and how to register its name for SQL; nothing is opened yet."""
        self._table, self._register = table, register

    def storage(self, table: TableName) -> Storage | None:
        """The number of base files, log files and completed commits; None if there is no such table."""
        timeline = self._table(table).timeline()
        if not timeline.exists():
            return None
        newest = [group[0] for group in timeline.file_groups()]
        return Storage(
            files=sum(one.base > 0 for one in newest),
            delete_files=sum(len(one.logs) for one in newest),
            bytes=sum(one.base + sum(one.logs) for one in newest),
            manifests=1,
            snapshots=len(timeline.completed()),
        )

    def plan(self, table: TableName, settings: TableMaintenanceConfig) -> Sequence[Action]:
        """The actions that are due, in the order to perform them; starts no Spark job."""
        found = self._table(table)
        timeline = found.timeline()
        if not timeline.exists():
            return []
        groups = timeline.file_groups()
        newest = [group[0] for group in groups]
        target = int(found.option(_TARGET, timeline) or _TARGET_BYTES)
        sizes = [(one.partition, one.base) for one in newest if one.base]
        return [
            *_merge_of_logs(newest, settings.compact),
            *compaction(sizes, settings.compact, target),
            *_expiry(timeline, groups, settings.expire),
        ]

    def perform(self, table: TableName, action: Action, settings: TableMaintenanceConfig) -> None:
        """Perform one action that is due.

        Raises:
            CommitConflictError: A writer was faster; nothing was changed.
        """
        found = self._table(table)
        timeline = found.timeline()
        options = _kept_options(found, timeline)
        if action.work == "compact":
            sort = found.option(SORT, timeline)
            order = f", order => {text(sort)}" if sort else ""
            call = f"run_clustering(path => {text(found.path)}{order}{_options(options)})"
        elif action.work == "rewrite_position_deletes":
            call = _merging(found.path, options)
        else:
            self._register(table)
            retained = _retained(timeline.completed(), settings.expire)
            call = _cleaning(f"table => {text(str(table))}", retained, options)
        with races_lost_by(table, [RACED]):
            found.session.sql(f"CALL {call}").collect()


def purge(table: HudiTable, name: TableName, register: Callable[[TableName], object]) -> None:
    """Compact log files into base files, then clean every version of a file but the newest.

    Raises:
        CommitConflictError: A writer was faster; the call may be repeated.
    """
    timeline = table.timeline()
    options = _kept_options(table, timeline)
    has_logs = any(group[0].logs for group in timeline.file_groups())
    calls = [_merging(table.path, options)] if has_logs else []
    register(name)
    policy = "clean_policy => 'KEEP_LATEST_FILE_VERSIONS', file_versions_retained => 1"
    calls.append(f"run_clean(table => {text(str(name))}, {policy}{_options(options)})")
    with races_lost_by(name, [RACED]):
        for call in calls:
            table.session.sql(f"CALL {call}").collect()


def _kept_options(table: HudiTable, timeline: HudiTimeline) -> list[str]:
    """The environment's write options that a procedure has to be told.

    If procedures kept a metadata table, and the writers none, each would rewrite hoodie.properties, which
    readers find empty for a moment.
    """
    kept = table.option(_METADATA, timeline)
    return [f"{_METADATA}={kept}"] if kept else []


def _merging(path: str, options: Sequence[str]) -> str:
    """The call that merges log files into base files."""
    return f"run_compaction(op => 'scheduleandexecute', path => {text(path)}{_options(options)})"


def _merge_of_logs(slices: Sequence[FileSlice], settings: CompactConfig) -> list[Action]:
    """One action for all log files, if some base file has many of them, or has large ones for its size."""
    with_logs = [one for one in slices if one.logs]
    if not any(
        len(one.logs) >= settings.small_files or sum(one.logs) >= settings.deleted_fraction * one.base
        for one in with_logs
    ):
        return []
    logs = [size for one in with_logs for size in one.logs]
    reason = f"{len(logs)} log files"
    return [Action(work="rewrite_position_deletes", files=len(logs), bytes=sum(logs), reason=reason)]


def _expiry(
    timeline: HudiTimeline, groups: Sequence[Sequence[FileSlice]], settings: ExpireConfig
) -> list[Action]:
    """One action for the files that belong only to commits that need not stay readable."""
    commits = timeline.completed()
    retained = _retained(commits, settings)
    if len(commits) <= retained:
        return []
    earliest = commits[retained - 1]
    superseded = (later.instant < earliest for group in groups for later, _ in pairwise(group))
    files = sum(superseded) + timeline.replaced_before(earliest)
    reason = f"{files} files of no commit since {earliest}"
    return [Action(work="expire_snapshots", files=files, bytes=0, reason=reason)] if files else []


def _retained(commits: Sequence[str], settings: ExpireConfig) -> int:
    """How many of the newest commits stay readable: all that are young enough, and at least ``keep``."""
    since = instant_of(datetime.now(UTC) - settings.older_than)
    return max(settings.keep, sum(instant >= since for instant in commits))


def _cleaning(at: str, retained: int, options: Sequence[str]) -> str:
    """The call that cleans the files of all commits but the newest ``retained``."""
    # Hudi may archive only commits older than those it cleans, so its limits of archiving are higher.
    limits = [f"hoodie.keep.min.commits={retained + 10}", f"hoodie.keep.max.commits={retained + 20}"]
    policy = f"clean_policy => 'KEEP_LATEST_COMMITS', retain_commits => {retained}"
    return f"run_clean({at}, {policy}{_options([*options, *limits])})"


def _options(options: Sequence[str]) -> str:
    return f", options => {text(','.join(options))}" if options else ""
