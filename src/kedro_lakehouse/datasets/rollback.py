"""Go back to an earlier state of a table: rows and bookmark together, so that the next run goes on from there."""

from __future__ import annotations

import dataclasses
import datetime as dt
import logging
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from kedro_lakehouse.datasets.rebuild import declared_kinds
from kedro_lakehouse.datasets.refold import FOLDED_AT
from kedro_lakehouse.datasets.trim import horizon_of
from kedro_lakehouse.errors import NoSuchSnapshotError, UnsupportedError
from kedro_lakehouse.ops.lease import lease
from kedro_lakehouse.ops.report import BOOKMARK, COUNTS, CommitReport
from kedro_lakehouse.ops.store import BATCHES

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.changes.plan import Kind
    from kedro_lakehouse.formats.base import TableState
    from kedro_lakehouse.formats.snapshots import Snapshot
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project

logger = logging.getLogger(__name__)

HELD: Final = "kedro_lakehouse.held_since"
"""Property of a current or history table: runs leave it as it is until it is released."""


@dataclass(frozen=True, kw_only=True)
class Goal:
    """Where to go back to: exactly one of the three is given."""

    batch: int | None = None
    snapshot: int | None = None
    time: dt.datetime | None = None

    @property
    def told(self) -> str:
        """The goal in words."""
        if self.batch is not None:
            return f"batch {self.batch}"
        return f"snapshot {self.snapshot}" if self.snapshot is not None else f"the time {self.time}"


@dataclass(frozen=True, kw_only=True)
class RolledBack:
    """One stored table that went back: from which batch to which one, and the rows that it has now."""

    table: str
    snapshot_id: int
    from_batch: int
    batch: int
    rows: int


@dataclass(frozen=True, kw_only=True)
class _Step:
    kind: Kind
    state: TableState
    snapshot: Snapshot
    report: CommitReport


def published_commits(project: Project, name: TableName, kind: Kind) -> list[tuple[int, CommitReport]]:
    """The snapshot that each commit of one target published, and what it did; the earliest first."""
    rows = [r for r in project.ops.read(BATCHES, of_table=str(name)) if r["stage"] == kind]
    rows.sort(key=lambda r: r["committed_at"])
    return [(r["snapshot_id"], _report(r)) for r in rows if r["snapshot_id"] is not None]


def _report(row: Mapping[str, Any]) -> CommitReport:
    known = {f.name for f in dataclasses.fields(CommitReport)} - {"digest", "counts", "committed_at"}
    facts = {k: v for k, v in row.items() if k in known}
    counts = {c: row[c] for c in COUNTS if row.get(c) is not None}
    return CommitReport(
        **facts, committed_at=row["committed_at"].isoformat(timespec="milliseconds"), counts=counts
    )


def roll_back(project: Project, name: TableName, goal: Goal, *, hold: bool = False) -> list[RolledBack]:
    """Bring current and history back to an earlier state, each in one commit with its bookmark of then.

    The record of changes stays: the next run applies again what came after, unless the table is held.
    A batch is one that a commit ended with; a snapshot is of one of the two tables, and only that one
    goes back.

    Raises:
        NoSuchSnapshotError: No state of that batch, time or snapshot can still be read.
        UnsupportedError: The state is from before the table was folded again, or its history needs events
            that were trimmed since.
    """
    with ExitStack() as held:
        for stage in ("ingestion", "current", "history"):
            held.enter_context(lease(project.leases, name, stage))
        steps = [_step(project, name, kind, goal) for kind in declared_kinds(project.table(name))]
        found = [step for step in steps if step is not None]
        if not found:
            raise NoSuchSnapshotError(table=name, wanted=goal.told, known=_known(project, name))
        for step in found:
            _refuse_what_is_lost(project, name, step)
        return [_publish(project, name, step, hold=hold) for step in found]


def release(project: Project, name: TableName) -> list[str]:
    """Let runs bring a held table up to date again; the stored tables that were held."""
    lake, freed = project.format_of(name), []
    for kind in declared_kinds(project.table(name)):
        target = name.with_suffix(kind)
        state = lake.state(target)
        if state is not None and is_held(state) and state.snapshot_id is not None:
            lake.snapshots.roll_back(target, state.snapshot_id, {HELD: ""})
            freed.append(str(target))
    return freed


def is_held(state: TableState | None) -> bool:
    """Whether runs leave a target as it is."""
    return bool(state and state.properties.get(HELD))


def _step(project: Project, name: TableName, kind: Kind, goal: Goal) -> _Step | None:
    """What going back means for one target; None where it is not concerned.

    Raises:
        NoSuchSnapshotError: It is concerned, and no such state of it can be read.
    """
    lake, target = project.format_of(name), name.with_suffix(kind)
    state = lake.state(target)
    if state is None or (goal.batch is not None and state.batch < goal.batch):
        return None
    snapshots = {s.snapshot_id: s for s in lake.snapshots.list(target)}
    if goal.snapshot is not None and goal.snapshot not in snapshots:
        return None
    reports = published_commits(project, name, kind)
    at = goal.snapshot if goal.time is None else lake.snapshots.published_at(target, goal.time)
    if goal.batch is not None:
        found = _of_batch(goal.batch, snapshots, reports, state)
    else:
        chosen = snapshots.get(at) if at is not None else None
        report = _bookmark_of(chosen, snapshots, dict(reports)) if chosen else None
        found = (chosen, report) if chosen and report else None
    if found is None:
        raise NoSuchSnapshotError(table=target, wanted=goal.told, known=_known(project, name))
    return _Step(kind=kind, state=state, snapshot=found[0], report=found[1])


def _of_batch(
    batch: int,
    snapshots: Mapping[int, Snapshot],
    reports: Sequence[tuple[int, CommitReport]],
    state: TableState,
) -> tuple[Snapshot, CommitReport] | None:
    """The newest state that a commit with this batch published, also by folding the table again."""
    found = [(snapshots[i], r) for i, r in reports if r.batch == batch and i in snapshots]
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
    """The bookmark that a snapshot had: of its nearest ancestor that a run published.

    Maintenance, trimming and hand-written SQL make snapshots that no run published.
    """
    at: Snapshot | None = snapshot
    while at is not None:
        if at.snapshot_id in reports:
            return reports[at.snapshot_id]
        at = snapshots.get(at.parent_id) if at.parent_id is not None else None
    earlier = [r for r in reports.values() if dt.datetime.fromisoformat(r.committed_at) <= snapshot.committed_at]
    return max(earlier, key=lambda r: r.batch, default=None)


def _refuse_what_is_lost(project: Project, name: TableName, step: _Step) -> None:
    since = _folded_at(step.state)
    if since and step.snapshot.committed_at < since:
        raise UnsupportedError(
            what=f"{name.with_suffix(step.kind)} was folded again since: its earlier states were made by "
            "another declaration, or with events that were withdrawn.",
            remedy=f"Choose a later state: `kedro lakehouse snapshots {name.with_suffix(step.kind)}`.",
        )
    record = project.format_of(name).state(name.with_suffix("changes"))
    behind = record is not None and step.report.batch < record.batch
    if step.kind == "history" and behind and horizon_of(record) is not None:
        raise UnsupportedError(
            what=f"The record of {name} is trimmed (changes_retention): it does not hold all of the history "
            f"after batch {step.report.batch}.",
            remedy=f"Go back to the last batch: `kedro lakehouse snapshots {name.with_suffix('history')}`.",
        )


def _publish(project: Project, name: TableName, step: _Step, *, hold: bool) -> RolledBack:
    target = name.with_suffix(step.kind)
    since = dt.datetime.now(dt.UTC).isoformat(timespec="seconds") if hold else ""
    properties = {BOOKMARK: step.report.to_property(), HELD: since}
    project.format_of(name).snapshots.roll_back(target, step.snapshot.snapshot_id, properties)
    logger.info("%s %s: back from batch %s to %s", name, step.kind, step.state.batch, step.report.batch)
    return RolledBack(
        table=str(target), snapshot_id=step.snapshot.snapshot_id, from_batch=step.state.batch,
        batch=step.report.batch, rows=step.snapshot.rows,
    )  # fmt: skip


def _known(project: Project, name: TableName) -> Sequence[str]:
    """The batches that can be gone back to, the newest first."""
    found: set[int] = set()
    for kind in declared_kinds(project.table(name)):
        there = {s.snapshot_id for s in project.format_of(name).snapshots.list(name.with_suffix(kind))}
        found |= {r.batch for i, r in published_commits(project, name, kind) if i in there}
    return [f"batch {batch}" for batch in sorted(found, reverse=True)]
