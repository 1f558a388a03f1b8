"""Plan a commit: from pending events and a target table to the rows that change, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal

from pyspark.sql import functions as F

from kedro_lakehouse.changes.current import current_rows
from kedro_lakehouse.changes.events import (
    BATCH,
    DELETE,
    OP,
    ORDER,
    TIME,
    column,
    columns,
    value_columns,
)
from kedro_lakehouse.changes.history import (
    HISTORY_COLUMNS,
    IS_CURRENT,
    ORDER_FROM,
    ORDER_LAST,
    history_rows,
    open_rows_as_events,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kedro_lakehouse.changes.contract import TableContract

Kind = Literal["current", "history"]

ACTION: Final = "_action"
INSERT: Final = "insert"
UPDATE: Final = "update"
CLOSE: Final = "close"
REMOVE: Final = "remove"

LATE: Final = "_late"
_HELD: Final = "__held"
_LATE_KEY: Final = "__late_key"


@dataclass(frozen=True, kw_only=True)
class Target:
    """The target as it stands: its rows, and the past of its events up to its bookmark and beyond.

    ``past`` holds the events of every batch that is applied or about to be.
    """

    kind: Kind
    rows: DataFrame
    past: DataFrame
    bookmark: int


def identity_columns(kind: Kind, contract: TableContract) -> tuple[str, ...]:
    """The columns that identify a row of a target: the keys; in a history also what opened the row."""
    return contract.keys if kind == "current" else (*contract.keys, ORDER_FROM)


def first_rows(kind: Kind, events: DataFrame, contract: TableContract) -> DataFrame:
    """Fold all events into the rows of a target that does not exist yet."""
    return current_rows(events, contract) if kind == "current" else history_rows(events, contract)


def mark_late(events: DataFrame, target: Target, contract: TableContract) -> DataFrame:
    """Mark events that are not later than what their key held before this batch.

    Adds ``_late``, and for all events of a key whether one of them is late.

    Source:
        Contract section 6: what a key holds is its row's last event, or, without a row, its last
        delete, which only the record of changes remembers.
    """
    touched = events.select(*columns(contract.keys)).distinct()
    rows = target.rows if target.kind == "current" else target.rows.where(column(IS_CURRENT))
    last = ORDER if target.kind == "current" else ORDER_LAST
    deletes = target.past.where((column(OP) == DELETE) & (column(BATCH) <= target.bookmark))
    marks = rows.select(*columns(contract.keys), column(last).alias(_HELD)).unionByName(
        deletes.select(*columns(contract.keys), column(ORDER).alias(_HELD))
    )
    held = (
        marks.join(touched, list(contract.keys), "left_semi")
        .groupBy(*columns(contract.keys))
        .agg(F.max(_HELD).alias(_HELD))
    )
    late = F.coalesce(column(ORDER) <= column(_HELD), F.lit(False))
    marked = events.join(held, list(contract.keys), "left").withColumn(LATE, late).drop(_HELD)
    late_keys = marked.where(column(LATE)).select(*columns(contract.keys), F.lit(True).alias(_LATE_KEY))
    return marked.join(late_keys.distinct(), list(contract.keys), "left")


def changed_rows(marked: DataFrame, target: Target, contract: TableContract, *, late: bool) -> DataFrame:
    """Compare the rows that touched keys have with the rows that they are to have.

    Keys whose events are all in order fold onto their target row; ``late`` says whether any key
    has a late event: such keys are folded again from the past.

    Schema:
        returns: the target's columns + ``_action`` (insert | update | close | remove); rows that
            stay as they are do not appear. (Identity columns) is unique.

    Returns:
        A lazy frame: calling this function starts no Spark job.
    """
    event_columns = [*value_columns(target.past), OP, ORDER, TIME]
    touched = marked.groupBy(*columns(contract.keys)).agg(
        F.coalesce(F.max(_LATE_KEY), F.lit(False)).alias(_LATE_KEY)
    )
    old = target.rows.join(touched, list(contract.keys), "inner")
    if target.kind == "history":
        old = old.where(column(_LATE_KEY) | column(IS_CURRENT))
    events = marked.where(column(_LATE_KEY).isNull()).select(*columns(event_columns))
    if target.kind == "history":
        open_rows = old.where(column(IS_CURRENT) & ~column(_LATE_KEY)).drop(_LATE_KEY)
        events = open_rows_as_events(open_rows).unionByName(events, allowMissingColumns=True)
    if late:
        late_keys = marked.where(column(_LATE_KEY)).select(*columns(contract.keys)).distinct()
        past = target.past.join(late_keys, list(contract.keys), "left_semi")
        events = events.unionByName(past.select(*columns(event_columns)), allowMissingColumns=True)
    new = first_rows(target.kind, events, contract)
    return _difference(old.drop(_LATE_KEY), new, target.kind, contract)


def _difference(old: DataFrame, new: DataFrame, kind: Kind, contract: TableContract) -> DataFrame:
    identity = identity_columns(kind, contract)
    names = new.columns
    matched = F.lit(True)
    for name in identity:
        matched &= F.col(f"old.`{name}`").eqNullSafe(F.col(f"new.`{name}`"))
    old_row = F.struct(*[_of("old", c) for c in names])
    new_row = F.struct(*[_of("new", c) for c in names])
    was, is_ = _of("old", identity[0]).isNotNull(), _of("new", identity[0]).isNotNull()
    action = F.when(~was, INSERT).when(~is_, REMOVE)
    if kind == "history":
        action = action.when(_of("old", IS_CURRENT) & ~_of("new", IS_CURRENT), CLOSE)
    action = action.otherwise(UPDATE)
    joined = old.alias("old").join(new.alias("new"), matched, "full_outer")
    return joined.where(~(was & is_) | ~old_row.eqNullSafe(new_row)).select(
        action.alias(ACTION), *[F.when(is_, _of("new", c)).otherwise(_of("old", c)).alias(c) for c in names]
    )


def _of(side: str, name: str) -> Column:
    return F.col(f"{side}.`{name}`")


def framework_columns(kind: Kind) -> tuple[str, ...]:
    """The framework's own columns of a target of this kind."""
    return (ORDER,) if kind == "current" else HISTORY_COLUMNS
