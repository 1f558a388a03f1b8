"""What commits ask of rows: the border between how a batch is committed and how its rows are computed.

Commits decide what is planned on which state, and when it may be published. Whatever looks at rows is behind
this border; in a run that is Spark (``engine.SparkEngine``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from kedro_lakehouse.changes.events import BATCH, OP, POSITION, RAW, REASONS

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

    from pyspark.sql import types as T

    from kedro_lakehouse.changes.plan import Kind
    from kedro_lakehouse.commits.token import BatchToken
    from kedro_lakehouse.formats.base import Stage, TableState
    from kedro_lakehouse.lake_table import LakeTable


def _quarantine_columns() -> Mapping[str, T.DataType]:
    from pyspark.sql import types as T

    place = T.StructType([T.StructField("file", T.StringType()), T.StructField("row", T.LongType())])
    return {
        BATCH: T.LongType(),
        POSITION: place,
        REASONS: T.ArrayType(T.StringType()),
        OP: T.StringType(),
        RAW: T.StringType(),
    }


QUARANTINE_COLUMNS: Final = _quarantine_columns()


@dataclass(frozen=True, kw_only=True)
class Staged:
    """What staging the events of one batch found."""

    events_in: int
    quarantined: int
    too_late: int = 0
    applied: int = 0
    ties: int = 0
    upserts: int = 0
    digest: str = ""
    """A digest of the accepted events, whatever their order."""
    first_orders: tuple[Any, Any] = (None, None)
    """The least and the greatest first field of their orders."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """``min_order``, ``max_order`` and ``lag_seconds``, where they are known."""


class EventRows(Protocol):
    """The checked events of one batch, accepted and rejected."""

    def columns(self) -> Mapping[str, T.DataType]:
        """The columns that the change log must have for them."""

    def write(self, stage: Stage, state: TableState) -> Staged:
        """Stage the accepted events, without those that the change log holds already."""

    def rejected(self) -> Any:
        """The rejected events as rows of the quarantine."""

    def reading(self) -> AbstractContextManager[None]:
        """Name the landed file where one of them cannot be read while the block runs."""


class TargetRows(Protocol):
    """The rows that pending events make of a current or history table."""

    def columns(self, state: TableState | None) -> Mapping[str, T.DataType]:
        """The columns that the table must have for them."""

    def write(self, stage: Stage, state: TableState) -> dict[str, int]:
        """Stage what changes, compare it with the plan, and count it as ``lake.ops.batches`` does."""

    def judge(self, stage: Stage, state: TableState) -> None:
        """Judge the staged rows by the expectations that block.

        Raises:
            ExpectationFailedError: Rows fail; nothing may be published.
        """


class Engine(Protocol):
    """How the rows of a project's tables are computed."""

    def events(self, table: LakeTable, accepted: Any, rejected: Any, token: BatchToken) -> EventRows:
        """The checked events of one batch."""

    def pending(self, table: LakeTable, *, after: int, upto: int) -> Any:
        """The accepted events of the batches after one number up to another."""

    def merged(self, table: LakeTable, kind: Kind, pending: Any, token: BatchToken) -> TargetRows:
        """A target of a table with keys after its pending events."""

    def added(self, table: LakeTable, pending: Any, token: BatchToken) -> TargetRows:
        """The current table of a table without keys after its pending events."""

    def folded(self, table: LakeTable, kind: Kind, upto: int) -> TargetRows:
        """A target as the whole change log up to a batch makes it."""

    def quarantined(self, table: LakeTable, *, before: int, more: Any = None) -> Any:
        """The quarantined rows of the batches before one, and more rows of quarantine beside them."""
