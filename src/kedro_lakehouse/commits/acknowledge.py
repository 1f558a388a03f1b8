"""Acknowledge a commit: write its row to ``lake.ops.batches``, log it, add it to the run's summary."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.commits.glue import tell_glue
from kedro_lakehouse.formats.base import KeepsCommits, enter_phase
from kedro_lakehouse.ops.store import BATCHES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from kedro_lakehouse.formats.base import TableState
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.names import Role, TableName
    from kedro_lakehouse.ops.report import CommitReport
    from kedro_lakehouse.ops.store import OpsStore

logger = logging.getLogger(__name__)

_IDENTITY: Final = ("table", "stage", "batch", "run_id", "committed_at")
"""The columns of ``lake.ops.batches`` that identify a commit."""
_READ: Final = (*_IDENTITY, "batches", "content_hash", "follows")
_STAGES: Final[Mapping[Role, str]] = {"changes": "ingestion", "current": "current", "history": "history"}
"""For each stored table, the name of the lease under which it is written."""

_BATCH: Final = _READ.index("batch")
_Place = tuple[str, str, int, str]
"""What identifies a commit in the rows of others: table, stage, batch and identity of its plan."""


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A published commit: its bookmark, the snapshot that it made, and how long it took."""

    table: LakeTable
    report: CommitReport
    snapshot: int | None
    seconds: float


def acknowledge(commits: Sequence[Commit]) -> None:
    """Register published commits with Glue, write the rows that no other run has written, and log them.

    The rows of a set of commits are written in one commit; in a run with many commits, those of a second.

    Raises:
        AwsRefusedError: Glue refuses a table; no row is written, and the next run tries again.
    """
    if not commits:
        return
    for one in commits:
        tell_glue(one.table, one.report)
    rows = [one.report.row(one.snapshot) for one in commits]
    commits[0].table.ops.append_soon(BATCHES, rows, unless=_IDENTITY)
    for one in commits:
        report = one.report
        enter_phase("acknowledged", report.table, report.stage, report.batch)
        one.table.environment.reports.append(report)
        counts = [f"{count:,} {name.replace('_', ' ')}" for name, count in report.counts.items() if count]
        done = ", ".join(counts) or "no change"
        logger.info(
            "%s %s batch %s: %s (%.1f s)", report.table, report.stage, report.batch, done, one.seconds
        )
        events, rejected = (report.counts.get(count) or 0 for count in ("events_in", "quarantined"))
        if rejected and rejected * 2 >= events:
            warning = (
                "%s: %s of %s events of batch %s cannot be applied. `kedro lakehouse quarantine %s` says why."
            )
            logger.warning(warning, report.table, rejected, events, report.batch, report.table)


def write_unrecorded_commits(ops: OpsStore, tables: Iterable[LakeTable]) -> int:
    """Write the missing ``lake.ops.batches`` rows of published commits; return how many were written.

    A run that is alive holds the lease until it has written its own row, or writes it within seconds. If two
    runs write the same row, one of them succeeds. A commit whose row was deleted because of its age needs
    none. A process looks at all rows once, and later, of a table that has changed, at those of the batches
    since then.
    """
    targets = [one for table in tables for one in _targets(table) if ops.verified.get(one.target) != one.last]
    if not targets:
        return 0
    since, written = ops.kept_since(BATCHES), 0

    def recorded(one: _Target) -> _Recorded:
        known = ops.verified.get(one.target)
        if known is None or known[_BATCH] >= one.last[_BATCH]:  # a table that was made anew, or went back
            return _Recorded(ops.read(BATCHES, of_table=str(one.table), columns=_READ), since)
        rows = ops.read(BATCHES, of_table=str(one.table), columns=_READ, from_batch=known[_BATCH])
        return _Recorded(rows, since, _last(dict(zip(_READ, known, strict=True))))

    is_new = any(one.target not in ops.verified for one in targets)
    whole = _Recorded(ops.read(BATCHES, columns=_READ), since) if is_new else None
    for one in targets:
        table = one.table
        if _unrecorded(one, one.state, whole or recorded(one)):
            with table.lease(one.step):
                state = table.format.state(one.stored)
                for report, snapshot in reversed(_unrecorded(one, state, recorded(one))):
                    tell_glue(table, report)
                    ops.append(BATCHES, [report.row(snapshot)], unless=_IDENTITY)
                    written += 1
        ops.verified[one.target] = one.last
    return written


@dataclass(frozen=True, kw_only=True)
class _Target:
    """A stored table with a bookmark: its published state, its writers' lease, and its last commit."""

    table: LakeTable
    stored: TableName
    state: TableState
    step: str
    last: tuple[Any, ...]

    @property
    def target(self) -> tuple[str, str]:
        """The declared table and the stage, as rows name them."""
        return self.last[0], self.last[1]


def _targets(table: LakeTable) -> list[_Target]:
    """The stored tables of a declared or converted table that have a bookmark."""
    if table.conversion is not None:
        stored = [(table.name, "convert")]
    else:
        stored = [(table.stored(role), step) for role, step in _STAGES.items()]
    found = []
    for name, step in stored:
        state = table.format.state(name)
        if state is not None and state.bookmark is not None:
            row = state.bookmark.row(None)
            last = tuple(row[c] for c in _READ)
            found.append(_Target(table=table, stored=name, state=state, step=step, last=last))
    return found


class _Recorded:
    """The commits that have a row in ``lake.ops.batches``; those from before ``since`` need none."""

    def __init__(
        self, rows: Iterable[Mapping[str, Any]], since: datetime | None = None, verified: _Place | None = None
    ) -> None:
        """Take these rows; none is missing up to the commit ``verified``."""
        rows, self._since = list(rows), since
        self._commits = {tuple(r[c] for c in _IDENTITY) for r in rows}
        # The walk back ends at a commit from before, as the rows of those before it are gone, and at one
        # before which none is missing.
        self._before = {
            (at := _last(r)): None if at == verified or self._is_old(r) else _before(r) for r in rows
        }

    def _is_old(self, row: Mapping[str, Any]) -> bool:
        return self._since is not None and row["committed_at"] < self._since

    def has(self, report: CommitReport) -> bool:
        """Whether this commit has a row."""
        row = report.row(None)
        return self._is_old(row) or tuple(row[c] for c in _IDENTITY) in self._commits

    def lacks_one_before(self, report: CommitReport) -> bool:
        """Whether a commit before this one has no row; each row names the commit that it follows.

        Rows written by earlier versions name none, so commits before them are not searched for.
        """
        row = report.row(None)
        at, seen = None if self._is_old(row) else _before(row), set[object]()
        while at is not None and at not in seen:
            if at not in self._before:
                return True
            seen.add(at)
            at = self._before[at]
        return False


def _last(row: Mapping[str, Any]) -> _Place:
    return row["table"], row["stage"], row["batch"], row["content_hash"]


def _before(row: Mapping[str, Any]) -> _Place | None:
    batch, follows = row["batch"] - row["batches"], row.get("follows")
    return (row["table"], row["stage"], batch, follows) if batch > 0 and follows else None


def _unrecorded(
    target: _Target, state: TableState | None, recorded: _Recorded
) -> list[tuple[CommitReport, int | None]]:
    """The commits of a stored table that have no row, newest first, as far back as the format lists them.

    If the rows show that none is missing, the list of earlier commits is not read.
    """
    lake = target.table.format
    if state is None or state.bookmark is None:
        return []
    if recorded.has(state.bookmark) and not recorded.lacks_one_before(state.bookmark):
        return []
    kept: Iterable[tuple[CommitReport, int | None]] = [(state.bookmark, state.snapshot_id)]
    if isinstance(lake, KeepsCommits):
        kept = lake.commits(target.stored)
    found = []
    for report, snapshot in kept:
        if not recorded.has(report):
            found.append((report, snapshot))
        if not recorded.lacks_one_before(report):
            break
    return found
