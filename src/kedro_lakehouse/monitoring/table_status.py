"""The status of every declared table, from metadata and the rows of ``lake.ops`` alone."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Final, Literal

from kedro_lakehouse.ops.table_summary import Glanceable, State, TableSummary, in_words

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.monitoring.runs import TableFailure
    from kedro_lakehouse.names import Role
    from kedro_lakehouse.project import Project
    from kedro_lakehouse.sources.ledger import Refusal


@dataclass(frozen=True, kw_only=True)
class TableStatus:
    """The status of one declared table; figures of a target that the declaration does not have are None.

    ``since`` is when it began to fail, or was refused; ``reason`` says why. ``lag`` is the number of batches
    in the change log that current or history do not have yet; ``load`` is ``full`` after the first batch and
    ``delta`` after later ones.
    """

    table: str
    state: State
    since: datetime | None = None
    reason: str = ""
    load: Literal["full", "delta"] | None = None
    record_key: tuple[str, ...] = ()
    partition_key: tuple[str, ...] = ()
    rows: int | None
    history_rows: int | None
    batch: int
    current_batch: int | None
    history_batch: int | None
    lag: int
    last_commit: datetime | None
    quarantined: int

    @property
    def words(self) -> str:
        """The state in words, as commands, console and notifiers show it."""
        return in_words(self.state, self.since)


class LakeFacts:
    """What the states of tables depend on beside their metadata: each fact is read once for all tables."""

    def __init__(self, project: Project) -> None:
        """Keep the project; nothing is read yet."""
        self._project, self._now = project, datetime.now(UTC)

    @cached_property
    def running(self) -> set[str]:
        """The tables on which runs work now."""
        from kedro_lakehouse.ops.lease import held_leases

        return {name.rpartition(".")[0] for name in held_leases(self._project.leases)}

    @cached_property
    def failing(self) -> Mapping[str, TableFailure]:
        """The tables that failed and have not recovered."""
        from kedro_lakehouse.monitoring.runs import failing_tables

        return failing_tables(self._project)

    @cached_property
    def _unnumbered(self) -> dict[str, list[dict[str, object]]]:
        from kedro_lakehouse.ops.store import BATCH_LEDGER

        found: dict[str, list[dict[str, object]]] = {}
        for row in self._project.ops.read_without_batch(BATCH_LEDGER):
            found.setdefault(row["table"], []).append(row)
        return found

    def refused(self, table: LakeTable, head: str) -> list[Refusal]:
        """The extracts that the present guards refused on top of a table's last batch, oldest first."""
        if str(table) not in self._unnumbered:
            return []
        from kedro_lakehouse.sources.ledger import waiting_in

        found = waiting_in(self._unnumbered[str(table)], head)
        return [refusal for guards, refusal in found if guards == table.config.guards]

    def is_stale(self, table: str, last_commit: datetime | None) -> bool:
        """Whether a table's last commit is older than monitoring.yml allows."""
        if self._project.monitoring is None:
            return False
        from kedro_lakehouse.config.monitoring import oldest_allowed

        limit = oldest_allowed(self._project.monitoring.stale_after, table)
        return limit is not None and last_commit is not None and self._now - last_commit > limit


def statuses_of(project: Project) -> list[TableStatus]:
    """The status of each declared table, by name."""
    facts = LakeFacts(project)
    with project.catalog.listed():
        return [status_of(project.bind(name), facts) for name in sorted(project.declarations.tables)]


def status_of(table: LakeTable, facts: LakeFacts) -> TableStatus:
    """Read a declared table's status from the metadata of its stored tables, and from these facts."""

    def look(role: Role) -> TableSummary:
        return summary_of(table, role) or TableSummary()

    config = table.config
    changes, current = look("changes"), look("current") if config.current else None
    history = look("history") if config.history else None
    targets = [target for target in (current, history) if target]
    commits = [seen.committed for seen in (changes, *targets) if seen.committed]
    lag = max((changes.batch - target.batch for target in targets), default=0)
    last = max(commits, default=None)
    work = _work(table, facts, changes.head)
    state, since, reason = work or _rows(table, facts, changes.batch, targets, last)
    return TableStatus(
        table=str(table),
        state=state,
        since=since,
        reason=reason,
        load=None if not changes.batch else "full" if changes.batch == 1 else "delta",
        record_key=config.keys,
        partition_key=config.partition_by,
        rows=current.rows if current else None,
        history_rows=history.rows if history else None,
        batch=changes.batch,
        current_batch=current.batch if current else None,
        history_batch=history.batch if history else None,
        lag=max(lag, 0),
        last_commit=last,
        quarantined=look("quarantine").rows,
    )


_Found = tuple[State, "datetime | None", str]


def _work(table: LakeTable, facts: LakeFacts, head: str) -> _Found | None:
    """What the work on a table is or ended with, since when, and why; None if there is no such fact."""
    name = str(table)
    if name in facts.running:
        return "running", None, ""
    if failure := facts.failing.get(name):
        return "failing", failure.since, failure.message
    if refused := facts.refused(table, head):
        why = "; ".join(f"{one.file.name} {one.reason}" for one in refused)
        return "refused", min(one.since for one in refused), why
    return None


def _rows(
    table: LakeTable, facts: LakeFacts, batch: int, targets: Sequence[TableSummary], last: datetime | None
) -> _Found:
    """What the stored tables are like beside a change log up to this batch, and why."""
    if last is None:
        return "empty", None, ""
    if any(target.held for target in targets):
        return "held", None, "a rollback keeps its state"
    if any(target.batch < batch for target in targets):
        return "waiting", None, "current or history lack batches of the change log"
    return ("stale" if facts.is_stale(str(table), last) else "fresh"), None, ""


_COUNTED: Final = {
    "changes": ("ingestion", "applied", None),
    "quarantine": ("ingestion", "quarantined", None),
    "current": ("current", "inserted", "deleted"),
    "history": ("history", "opened", "removed"),
    "archive": ("archive", "inserted", "deleted"),
}
"""The stage of a stored table's commits, and which of their counts are rows more and rows less."""


def summary_of(table: LakeTable, role: Role) -> TableSummary | None:
    """The summary of a stored table of a declared one; None where there is no such table.

    For a format that only a JVM can read it is computed from ``lake.ops.batches``: the counts of its commits.
    """
    stored = table.stored(role)
    table_format = table.environment.format(table.format_name)
    if isinstance(table_format, Glanceable):
        return table_format.glance(stored)
    return _counted(table, role)


def _counted(table: LakeTable, role: Role) -> TableSummary | None:
    from kedro_lakehouse.ops.store import BATCHES  # it brings Arrow: a quarter of a second

    stage, more, less = _COUNTED[role]
    commits = [r for r in table.ops.read(BATCHES, of_table=str(table)) if r["stage"] == stage]
    if not commits or (role == "quarantine" and not any(r[more] for r in commits)):
        return None
    rows = sum((r[more] or 0) - ((less and r[less]) or 0) for r in commits)
    last = max(commits, key=lambda r: r["committed_at"])
    return TableSummary(
        rows=rows, batch=last["batch"], head=last["content_hash"], committed=last["committed_at"]
    )
