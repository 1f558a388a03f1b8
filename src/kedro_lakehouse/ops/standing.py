"""Where every declared table stands, from metadata alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from kedro_lakehouse.ops.glance import Glance, glance_of

if TYPE_CHECKING:
    from datetime import datetime

    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.names import Role


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Where one table stands; None where the declaration keeps no such table.

    ``lag`` is the number of recorded batches that current or history do not have yet; ``load`` tells
    whether more than the first batch was recorded.
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


def standing(table: LakeTable) -> Standing:
    """Read where a table stands from the metadata of what belongs to it."""

    def look(role: Role) -> Glance:
        return glance_of(table, role) or Glance()

    config = table.config
    changes, current = look("changes"), look("current") if config.current else None
    history = look("history") if config.history else None
    targets = [target for target in (current, history) if target]
    commits = [seen.committed for seen in (changes, *targets) if seen.committed]
    lag = max((changes.batch - target.batch for target in targets), default=0)
    return Standing(
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
