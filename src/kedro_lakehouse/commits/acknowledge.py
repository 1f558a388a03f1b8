"""The end of every commit: its row in ``lake.ops.batches``, its line in the log, its part of the summary."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.commits.glue import tell_glue
from kedro_lakehouse.formats.base import KeepsCommits, enter_phase
from kedro_lakehouse.ops.store import BATCHES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.names import Role, TableName
    from kedro_lakehouse.ops.report import CommitReport
    from kedro_lakehouse.ops.store import OpsStore

logger = logging.getLogger(__name__)

_IDENTITY: Final = ("table", "stage", "batch", "run_id", "committed_at")
"""The columns of ``lake.ops.batches`` that tell one commit from all others."""
_STAGES: Final[Mapping[Role, str]] = {"changes": "ingestion", "current": "current", "history": "history"}
"""The lease under which a stored table is written."""


def acknowledge(table: LakeTable, report: CommitReport, snapshot: int | None, *, seconds: float) -> None:
    """Write a published commit's row, unless another run has written it, and tell of the commit.

    Raises:
        AwsRefusedError: The environment's catalog refuses the table; the row is left to the next run.
    """
    tell_glue(table, report)
    table.ops.append(BATCHES, [report.row(snapshot)], unless=_IDENTITY)
    enter_phase("acknowledged", report.table, report.stage, report.batch)
    table.environment.reports.append(report)
    told = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in report.counts.items() if count)
    logger.info(
        "%s %s batch %s: %s (%.1f s)", report.table, report.stage, report.batch, told or "no change", seconds
    )


def write_unrecorded_commits(ops: OpsStore, tables: Iterable[LakeTable]) -> int:
    """Write the rows of commits that runs published and did not acknowledge; how many.

    A run that is alive has the lease until its own row is there; if it lost the lease, the row is written by
    one of the two.
    """
    rows, written = ops.read(BATCHES), 0
    recorded = _Recorded(rows)
    for table in tables:
        for stored, step in _stored(table):
            if not _unrecorded(table, stored, recorded):
                continue
            with table.lease(step):
                now_recorded = _Recorded(table.ops.read(BATCHES, of_table=str(table)))
                for report, snapshot in reversed(_unrecorded(table, stored, now_recorded)):
                    tell_glue(table, report)
                    table.ops.append(BATCHES, [report.row(snapshot)], unless=_IDENTITY)
                    written += 1
    return written


class _Recorded:
    """The commits of which ``lake.ops.batches`` has a row."""

    def __init__(self, rows: Iterable[Mapping[str, Any]]) -> None:
        rows = list(rows)
        self._commits = {tuple(r[c] for c in _IDENTITY) for r in rows}
        self._before = {_last(r): _before(r) for r in rows}

    def has(self, report: CommitReport) -> bool:
        """Whether this very commit is recorded."""
        row = report.row(None)
        return tuple(row[c] for c in _IDENTITY) in self._commits

    def lacks_one_before(self, report: CommitReport) -> bool:
        """Whether a commit that this one comes after is not recorded: each row names the one before it.

        Rows of earlier versions name none: nobody can tell what was before them.
        """
        at, seen = _before(report.row(None)), set[object]()
        while at is not None and at not in seen:
            if at not in self._before:
                return True
            seen.add(at)
            at = self._before[at]
        return False


_Place = tuple[str, str, int, str]


def _last(row: Mapping[str, Any]) -> _Place:
    return row["table"], row["stage"], row["batch"], row["content_hash"]


def _before(row: Mapping[str, Any]) -> _Place | None:
    batch, follows = row["batch"] - row["batches"], row.get("follows")
    return (row["table"], row["stage"], batch, follows) if batch > 0 and follows else None


def _stored(table: LakeTable) -> list[tuple[TableName, str]]:
    """The stored tables of a declared or converted one, each with the lease under which it is written."""
    if table.conversion is not None:
        return [(table.name, "convert")]
    return [(table.stored(role), step) for role, step in _STAGES.items()]


def _unrecorded(
    table: LakeTable, stored: TableName, recorded: _Recorded
) -> list[tuple[CommitReport, int | None]]:
    """The commits of a stored table without a row, the newest first, as far as its format keeps them.

    Where the rows show that none lacks nothing more is read.
    """
    lake = table.format
    state = lake.state(stored)
    if state is None or state.bookmark is None:
        return []
    if recorded.has(state.bookmark) and not recorded.lacks_one_before(state.bookmark):
        return []
    kept: Iterable[tuple[CommitReport, int | None]] = [(state.bookmark, state.snapshot_id)]
    if isinstance(lake, KeepsCommits):
        kept = lake.commits(stored)
    found = []
    for report, snapshot in kept:
        if not recorded.has(report):
            found.append((report, snapshot))
        if not recorded.lacks_one_before(report):
            break
    return found
