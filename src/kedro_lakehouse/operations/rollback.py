"""Roll a table back to an earlier state, rows and bookmark together; the next run continues from there."""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.commits import runner
from kedro_lakehouse.commits.marks import FOLDED_AT, ROLLED_BACK, horizon_of
from kedro_lakehouse.errors import NoSuchSnapshotError, UnsupportedError
from kedro_lakehouse.formats.snapshots import KeepsSnapshots
from kedro_lakehouse.ops.report import BOOKMARK, COUNTS, HELD, CommitReport
from kedro_lakehouse.ops.store import BATCHES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.formats.base import TableState
    from kedro_lakehouse.formats.snapshots import Snapshot, Snapshots
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.ops.lease import Lease

logger = logging.getLogger(__name__)


_STEPS: Final = ("ingestion", "current", "history", "convert")
"""All leases of a table: while they are held, no other run works on it."""


@dataclass(frozen=True, kw_only=True)
class Goal:
    """The state to go back to: exactly one of the three is given."""

    batch: int | None = None
    snapshot: int | None = None
    time: dt.datetime | None = None

    @property
    def words(self) -> str:
        """The goal in words."""
        if self.batch is not None:
            return f"batch {self.batch}"
        return f"snapshot {self.snapshot}" if self.snapshot is not None else f"the time {self.time}"


@dataclass(frozen=True, kw_only=True)
class RolledBack:
    """One stored table that was rolled back: its batch before and after, and the rows that it has now."""

    table: str
    snapshot_id: int
    from_batch: int
    batch: int
    rows: int


@dataclass(frozen=True, kw_only=True)
class _Step:
    stage: str
    target: TableName
    state: TableState
    snapshot: Snapshot
    report: CommitReport


def snapshots_of(table: LakeTable) -> Snapshots:
    """The snapshots of a declared or converted table's format.

    Raises:
        UnsupportedError: The format has no snapshots to go back to.
    """
    lake = table.format
    if isinstance(lake, KeepsSnapshots):
        return lake.snapshots
    raise UnsupportedError(
        what=f"{table}: the table format {lake.name} has no snapshots to go back to.",
        remedy="Fold the table again from its record: `kedro lakehouse rebuild`.",
    )


def targets_of(table: LakeTable) -> list[tuple[str, TableName]]:
    """The stage and the stored table of each target of a declared or converted table."""
    if table.conversion is not None:
        return [("convert", table.name)]
    return [(kind, table.stored(kind)) for kind in table.targets]


def published_commits(table: LakeTable, stage: str) -> list[tuple[int, CommitReport]]:
    """The snapshot and the report of each commit to one target, the earliest first."""
    rows = [r for r in table.ops.read(BATCHES, of_table=str(table)) if r["stage"] == stage]
    rows.sort(key=lambda r: r["committed_at"])
    return [(r["snapshot_id"], _report(r)) for r in rows if r["snapshot_id"] is not None]


def readable_states(
    snapshots: Snapshots, target: TableName, reports: Sequence[tuple[int, CommitReport]]
) -> dict[int, Snapshot]:
    """The states that readers see now, saw before, or can read by a tag or branch; the newest first."""
    published = {snapshot for snapshot, _ in reports}
    listed = snapshots.list(target)
    return {s.snapshot_id: s for s in listed if s.on_main or s.names or s.snapshot_id in published}


def _report(row: Mapping[str, Any]) -> CommitReport:
    known = {f.name for f in dataclasses.fields(CommitReport)} - {"digest", "counts", "committed_at"}
    facts = {k: v for k, v in row.items() if k in known}
    counts = {c: row[c] for c in COUNTS if row.get(c) is not None}
    return CommitReport(
        **facts, committed_at=row["committed_at"].isoformat(timespec="milliseconds"), counts=counts
    )


def roll_back(table: LakeTable, goal: Goal, *, hold: bool = False) -> list[RolledBack]:
    """Roll current and history back to an earlier state, each in one commit with the bookmark of that state.

    The change log stays as it is: the next run applies the later batches again, unless the table is held.
    A batch must be the last one of some commit. A snapshot belongs to one of the two tables, and only that
    table is rolled back.

    Raises:
        NoSuchSnapshotError: No state of that batch, time or snapshot can still be read.
        UnsupportedError: The state is from before the table was refolded, or its history needs events that
            were compacted since.
    """
    done: dict[TableName, RolledBack] = {}

    def back(_: Lease) -> list[RolledBack]:
        targets = [t for t in targets_of(table) if t[1] not in done]
        steps = [_step(table, stage, stored, goal) for stage, stored in targets]
        found = [step for step in steps if step is not None]
        if not (found or done):
            raise NoSuchSnapshotError(table=table.name, wanted=goal.words, known=_known(table))
        for step in found:
            _refuse_what_is_lost(table, step)
        for step in found:
            done[step.target] = _publish(table, step, hold=hold)
        return list(done.values())

    return runner.planned_again(table, _STEPS, back)


def release(table: LakeTable) -> list[str]:
    """Let runs update a held table again; return the stored tables that were held."""
    snapshots, freed = snapshots_of(table), list[str]()

    def free(_: Lease) -> list[str]:
        for _stage, target in targets_of(table):
            state = table.format.state(target)
            seen = next((s for s in snapshots.list(target) if s.on_main), None)
            if state is not None and state.is_held and seen is not None:
                snapshots.roll_back(target, seen.snapshot_id, {HELD: ""}, planned_on=state)
                freed.append(str(target))
        return freed

    return runner.planned_again(table, _STEPS, free)


def _step(table: LakeTable, stage: str, target: TableName, goal: Goal) -> _Step | None:
    """Plan the rollback of one target; None if the goal does not concern it.

    Raises:
        NoSuchSnapshotError: The goal concerns it, and no such state of it can be read.
    """
    state = table.format.state(target)
    if state is None or (goal.batch is not None and state.batch < goal.batch):
        return None
    listed = snapshots_of(table)
    reports = published_commits(table, stage)
    snapshots = readable_states(listed, target, reports)
    if goal.snapshot is not None and goal.snapshot not in snapshots:
        return None
    at = goal.snapshot if goal.time is None else listed.published_at(target, goal.time)
    if goal.batch is not None:
        found = _of_batch(goal.batch, snapshots, reports, state)
    else:
        chosen = snapshots.get(at) if at is not None else None
        report = _bookmark_of(chosen, snapshots, dict(reports)) if chosen else None
        found = (chosen, report) if chosen and report else None
    if found is None:
        raise NoSuchSnapshotError(table=target, wanted=goal.words, known=_known(table))
    return _Step(stage=stage, target=target, state=state, snapshot=found[0], report=found[1])


def _of_batch(
    batch: int,
    snapshots: Mapping[int, Snapshot],
    reports: Sequence[tuple[int, CommitReport]],
    state: TableState,
) -> tuple[Snapshot, CommitReport] | None:
    """The newest state that a commit published with this batch; a refold of the table counts too."""
    found = [(snapshots[i], r) for i, r in reports if r.batch == batch and i in snapshots]
    # A refold that keeps its bookmark has no row in ``lake.ops.batches``: it is found by its time.
    since = _folded_at(state)
    later = [s for s in snapshots.values() if since and s.on_main and s.committed_at >= since]
    if later:
        first = min(later, key=lambda s: s.committed_at)
        report = _bookmark_of(first, snapshots, dict(reports))
        if report is not None and report.batch == batch:
            found.append((first, report))
    return found[-1] if found else None


def _folded_at(state: TableState) -> dt.datetime | None:
    text = state.properties.get(FOLDED_AT)
    return dt.datetime.fromisoformat(text) if text else None


def _bookmark_of(
    snapshot: Snapshot, snapshots: Mapping[int, Snapshot], reports: Mapping[int, CommitReport]
) -> CommitReport | None:
    """The bookmark that a snapshot had: that of its nearest ancestor that a run published.

    Maintenance, compaction and hand-written SQL create snapshots that no run published.
    """
    at: Snapshot | None = snapshot
    while at is not None:
        if at.snapshot_id in reports:
            return reports[at.snapshot_id]
        at = snapshots.get(at.parent_id) if at.parent_id is not None else None
    earlier = [
        r for r in reports.values() if dt.datetime.fromisoformat(r.committed_at) <= snapshot.committed_at
    ]
    return max(earlier, key=lambda r: r.batch, default=None)


def _refuse_what_is_lost(table: LakeTable, step: _Step) -> None:
    listing = f"`kedro lakehouse snapshots {step.target}`"
    since = _folded_at(step.state)
    if since and step.snapshot.committed_at < since:
        raise UnsupportedError(
            what=f"{step.target} was folded again since, or rows left it for its archive: its earlier states "
            "were made by another declaration, with events that were excluded, or with rows that moved.",
            remedy=f"Choose a later state: {listing}.",
        )
    if step.stage != "history":
        return
    change_log = table.state("changes")
    if change_log is not None and step.report.batch < change_log.batch and horizon_of(change_log) is not None:
        raise UnsupportedError(
            what=f"The change log of {table} is compacted (changes_retention): it lacks a part of history "
            f"after batch {step.report.batch}.",
            remedy=f"Go back to the last batch: {listing}.",
        )


def _publish(table: LakeTable, step: _Step, *, hold: bool) -> RolledBack:
    since = dt.datetime.now(dt.UTC).isoformat(timespec="seconds") if hold else ""
    # No state from before a rebuild is left to go back to, so the table's epoch stays as it is.
    epoch = step.state.bookmark.epoch if step.state.bookmark else 0
    report = dataclasses.replace(step.report, epoch=epoch)
    properties = {BOOKMARK: report.to_property(), HELD: since, ROLLED_BACK: uuid.uuid4().hex}
    snapshots_of(table).roll_back(step.target, step.snapshot.snapshot_id, properties, planned_on=step.state)
    logger.info("%s: back from batch %s to %s", step.target, step.state.batch, step.report.batch)
    return RolledBack(
        table=str(step.target),
        snapshot_id=step.snapshot.snapshot_id,
        from_batch=step.state.batch,
        batch=step.report.batch,
        rows=step.snapshot.rows,
    )


def _known(table: LakeTable) -> Sequence[str]:
    """The batches that the table can go back to, the newest first."""
    found: set[int] = set()
    for stage, target in targets_of(table):
        reports = published_commits(table, stage)
        there = readable_states(snapshots_of(table), target, reports)
        found |= {r.batch for i, r in reports if i in there}
    return [f"batch {batch}" for batch in sorted(found, reverse=True)]
