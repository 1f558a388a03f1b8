"""The report of a commit: its table carries it as a property until ``lake.ops.batches`` has it as a row."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

BOOKMARK: Final = "kedro_lakehouse.bookmark"
"""Table property that a commit sets together with its data; it survives the expiry of snapshots."""
HELD: Final = "kedro_lakehouse.held_since"
"""Table property that a rollback sets: runs leave the table as it is until it is released."""

COUNTS: Final = (
    "events_in",
    "applied",
    "duplicates",
    "quarantined",
    "unchanged",
    "late",
    "stale_ignored",
    "inserted",
    "updated",
    "deleted",
    "opened",
    "closed",
    "rewritten",
    "removed",
    "too_late",
    "sequence_ties",
    "changed_without_newer_timestamp",
)
"""The counts of a commit: each is a column of ``lake.ops.batches``."""
FOLDED: Final = "folded again"
"""The number of rows that a fold of the whole change log put in the place of all: counted in no column."""

_UNRECORDED: Final = ("counts", "digest", "epoch")
"""Facts that the bookmark needs and ``lake.ops.batches`` does not show."""


@dataclass(frozen=True, kw_only=True)
class CommitReport:
    """The state of a table, and what its last commit did.

    ``batch`` is the last batch that the table holds, ``batches`` how many of them this commit added;
    ``correlation_id`` is the scheduler's name of the run, else the run's own (commits made before have none).
    ``content_hash`` is the identity of the last batch's plan, ``follows`` that of the bookmark before this
    one, and ``epoch`` the number of the rebuild that both were made after.
    """

    table: str
    stage: str
    batch: int
    batches: int
    content_hash: str
    run_id: str
    committed_at: str
    correlation_id: str | None = None
    digest: str = ""
    follows: str = ""
    epoch: int = 0
    lag_seconds: float | None = None
    min_order: str | None = None
    max_order: str | None = None
    counts: dict[str, int] = field(default_factory=dict)

    def to_property(self) -> str:
        """The text of the table property."""
        return json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_property(cls, text: str | None) -> CommitReport | None:
        """Read the table property back; None where the table has none."""
        return cls(**json.loads(text)) if text else None

    def row(self, snapshot_id: int | None) -> dict[str, Any]:
        """The row of ``lake.ops.batches``."""
        known = {name: self.counts.get(name) for name in COUNTS}
        facts = {k: v for k, v in asdict(self).items() if k not in _UNRECORDED}
        committed = datetime.fromisoformat(self.committed_at)
        return facts | known | {"snapshot_id": snapshot_id, "committed_at": committed}


def bookmark_of(properties: Mapping[str, str]) -> CommitReport | None:
    """Read a table's bookmark from its properties; None where the project never committed to it."""
    return CommitReport.from_property(properties.get(BOOKMARK))


def now() -> str:
    """The time of a commit, as text."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")
