"""The status of every declared table, from metadata alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from kedro_lakehouse.ops.table_summary import Glanceable, TableSummary

if TYPE_CHECKING:
    from datetime import datetime

    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.names import Role


@dataclass(frozen=True, kw_only=True)
class TableStatus:
    """The status of one declared table; figures of a target that the declaration does not have are None.

    ``lag`` is the number of batches in the change log that current or history do not have yet; ``load`` is
    ``full`` after the first batch and ``delta`` after later ones.
    """

    table: str
    state: Literal["empty", "up to date", "behind", "held"]
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


def status_of(table: LakeTable) -> TableStatus:
    """Read a declared table's status from the metadata of its stored tables."""

    def look(role: Role) -> TableSummary:
        return summary_of(table, role) or TableSummary()

    config = table.config
    changes, current = look("changes"), look("current") if config.current else None
    history = look("history") if config.history else None
    targets = [target for target in (current, history) if target]
    commits = [seen.committed for seen in (changes, *targets) if seen.committed]
    lag = max((changes.batch - target.batch for target in targets), default=0)
    return TableStatus(
        table=str(table),
        state=_state(lag, committed=bool(commits), held=any(t.held for t in targets)),
        load=None if not changes.batch else "full" if changes.batch == 1 else "delta",
        record_key=config.keys,
        partition_key=config.partition_by,
        rows=current.rows if current else None,
        history_rows=history.rows if history else None,
        batch=changes.batch,
        current_batch=current.batch if current else None,
        history_batch=history.batch if history else None,
        lag=max(lag, 0),
        last_commit=max(commits, default=None),
        quarantined=look("quarantine").rows,
    )


def _state(lag: int, *, committed: bool, held: bool) -> Literal["empty", "up to date", "behind", "held"]:
    if not committed:
        return "empty"
    return "held" if held else "behind" if lag > 0 else "up to date"


_COUNTED: Final = {
    "changes": ("ingestion", "applied", None),
    "quarantine": ("ingestion", "quarantined", None),
    "current": ("current", "inserted", "deleted"),
    "history": ("history", "opened", "removed"),
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
    return TableSummary(rows=rows, batch=last["batch"], committed=last["committed_at"])
