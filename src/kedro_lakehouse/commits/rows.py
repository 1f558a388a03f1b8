"""The interface between committing a batch and computing its rows.

A commit decides on which state a change is planned, and when it may be published. All code that looks at rows
is behind this interface; in a run that is Spark (``engine.SparkEngine``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql import types as T

from kedro_lakehouse.changes.events import BATCH, CONCERNED, OP, POSITION, RAW, REASONS
from kedro_lakehouse.changes.plan import CLOSE, INSERT, REMOVE, UPDATE

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from kedro_lakehouse.changes.plan import Kind, MergePlan
    from kedro_lakehouse.commits.token import BatchToken
    from kedro_lakehouse.formats.base import Stage, TableState
    from kedro_lakehouse.lake_table import LakeTable


QUARANTINE_COLUMNS: Final[Mapping[str, T.DataType]] = {
    BATCH: T.LongType(),
    POSITION: T.StructType([T.StructField("file", T.StringType()), T.StructField("row", T.LongType())]),
    REASONS: T.ArrayType(T.StringType()),
    CONCERNED: T.ArrayType(T.StringType()),
    OP: T.StringType(),
    RAW: T.StringType(),
}


_METRIC: Final = {
    "current": {INSERT: "inserted", UPDATE: "updated", REMOVE: "deleted"},
    "history": {INSERT: "opened", CLOSE: "closed", UPDATE: "rewritten", REMOVE: "removed"},
}


def counts_of(kind: Kind, found: Mapping[str, int], *, late: int, stale: int) -> dict[str, int]:
    """What a commit to a target counts in ``lake.ops.batches``, from the number of rows of each action."""
    counts = {name: found.get(action, 0) for action, name in _METRIC[kind].items()} | {"late": late}
    return counts | ({"stale_ignored": stale} if kind == "current" else {})


@dataclass(frozen=True, kw_only=True)
class Staged:
    """The counts and facts that were found while the events of one batch were staged."""

    events_in: int
    quarantined: int
    too_late: int = 0
    applied: int = 0
    ties: int = 0
    upserts: int = 0
    has_distinct_keys: bool = False
    """Whether it is known that no key has two accepted events, and none is a truncate."""
    digest: str = ""
    """A digest of the accepted events, independent of their order."""
    first_orders: tuple[Any, Any] = (None, None)
    """The least and the greatest value of the first field of their orders."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """``min_order``, ``max_order`` and ``lag_seconds``, where they are known."""


class EventRows(Protocol):
    """The checked events of one batch, accepted and rejected."""

    def columns(self) -> Mapping[str, T.DataType]:
        """The columns that the change log must have to store the events."""

    def write(self, stage: Stage, state: TableState) -> Staged:
        """Stage the accepted events, without those that the change log already contains."""

    def rejected(self) -> Any:
        """The rejected events as rows of the quarantine table."""

    def reading(self) -> AbstractContextManager[None]:
        """While the block runs, name the landed file in the error if one cannot be read."""


class TargetRows(Protocol):
    """The rows of a current or history table, computed from its events."""

    def columns(self, state: TableState | None) -> Mapping[str, T.DataType]:
        """The columns that the table must have to store the rows."""

    def write(self, stage: Stage, state: TableState) -> dict[str, int]:
        """Stage the changes, compare them with the plan, and return the counts for ``lake.ops.batches``."""

    def validate(self, stage: Stage, state: TableState) -> None:
        """Validate the staged rows against the blocking expectations.

        Raises:
            ExpectationFailedError: Rows fail; nothing may be published.
        """


class Engine(Protocol):
    """Computes the rows of a project's tables."""

    def events(self, table: LakeTable, accepted: Any, rejected: Any, token: BatchToken) -> EventRows:
        """The checked events of one batch."""

    def pending(self, table: LakeTable, *, after: int, upto: int) -> Any:
        """The accepted events of the batches after ``after`` and up to ``upto``."""

    def truncates(self, table: LakeTable, *, after: int, upto: int) -> bool:
        """Whether the batches after ``after`` and up to ``upto`` have an accepted truncate."""

    def merged(self, table: LakeTable, plan: MergePlan, token: BatchToken) -> TargetRows:
        """The rows of a target of a table with keys, once the plan's pending events are applied."""

    def added(self, table: LakeTable, plan: MergePlan, token: BatchToken) -> TargetRows:
        """The rows of the current table of a table without keys, once the plan's events are applied."""

    def folded(self, table: LakeTable, kind: Kind, upto: int) -> TargetRows:
        """The rows of a target, folded from the whole change log up to a batch."""

    def quarantined(self, table: LakeTable, *, before: int, more: Any = None) -> Any:
        """The quarantined rows of the batches before ``before``, together with the rows of ``more``."""
