"""Parts of a plan: the rows of a target that pending events touch, the late events, the changed rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from pyspark.sql import functions as F

from kedro_lakehouse.changes.compare import comparable
from kedro_lakehouse.changes.events import (
    BATCH,
    DELETE,
    OP,
    OPENED_COLUMNS,
    ORDER,
    TIME,
    TRUNCATE,
    UNSET,
    all_of,
    column,
    columns,
    greatest_order,
    value_columns,
)
from kedro_lakehouse.changes.fold import current_rows, inherits, only_rows
from kedro_lakehouse.changes.history import (
    EFFECTIVE_TO,
    ORDER_FROM,
    ORDER_LAST,
    ORDER_TO,
    history_rows,
    is_open,
    only_versions,
)
from kedro_lakehouse.changes.validate import before
from kedro_lakehouse.names import quote

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

    from kedro_lakehouse.changes.contract import TableContract

Kind = Literal["current", "history"]

_TO_EACH_TASK: Final = 500_000
"""Up to this many keys are broadcast to every task that reads the target."""

ACTION: Final = "_action"
INSERT: Final = "insert"
UPDATE: Final = "update"
CLOSE: Final = "close"
REMOVE: Final = "remove"

LATE: Final = "_late"
TIED: Final = "_tied"
HELD: Final = "__held"
ROW: Final = "_row"
"""A key's row in the target as a struct (in a history the open version); null where it has none."""


@dataclass(frozen=True, kw_only=True)
class MergePlan:
    """How accepted events change a current or history table; nothing is computed before the commit.

    ``events`` may contain batches that the target has already, or that landed later: the commit applies those
    that are pending, by the rules of ``contract``, to the rows that it finds; after a lost race, once more to
    the rows that it finds then.
    """

    kind: Kind
    contract: TableContract
    events: DataFrame


@dataclass(frozen=True, kw_only=True)
class Target:
    """A current or history table (the target): its rows before a commit, and the events of its change log.

    ``past`` holds the events of every batch that is applied or is about to be; the latter, after the
    ``bookmark``, are pending. ``deletes``, ``truncates`` and ``new_truncates`` say whether the change log
    and the pending events may hold such events, ``pending`` how many pending events there are at most, and
    ``ranges`` gives the least and greatest value of key columns among them. All these are known from
    metadata and only save work. The change log is compacted up to the ``horizon``: it no longer holds every
    single event from before, so versions that ended before the horizon stay as they are.
    """

    kind: Kind
    rows: DataFrame
    past: DataFrame
    bookmark: int
    deletes: bool = True
    truncates: bool = True
    new_truncates: bool = True
    pending: int | None = None
    horizon: dt.datetime | None = None
    ranges: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)

    @property
    def last(self) -> str:
        """The column with the order of a row's last event."""
        return ORDER if self.kind == "current" else ORDER_LAST

    @property
    def broadcasts_keys(self) -> bool:
        """Whether the keys of the pending events are so few that each task gets them all."""
        return self.pending is not None and self.pending <= _TO_EACH_TASK

    def in_key_ranges(self, frame: DataFrame) -> DataFrame:
        """Keep the rows whose keys lie within ``ranges``; all rows where a truncate is pending."""
        if self.new_truncates:
            return frame
        for name, (low, high) in self.ranges.items():
            frame = frame.where(column(name).between(F.lit(low), F.lit(high)))
        return frame


def identity_columns(kind: Kind, contract: TableContract) -> tuple[str, ...]:
    """The columns that identify a row of a target: the keys; in a history also the order that opened it."""
    return contract.keys if kind == "current" else (*contract.keys, ORDER_FROM)


def first_rows(
    kind: Kind, events: DataFrame, contract: TableContract, *, truncates: bool, distinct: bool = False
) -> DataFrame:
    """Fold all events into the rows of a target that does not exist yet.

    ``distinct`` says that no key has two events, and that none is a truncate: then there is nothing to fold.
    """
    if distinct:
        return only_rows(events) if kind == "current" else only_versions(events, contract)
    fold = current_rows if kind == "current" else history_rows
    return fold(events, contract, truncates=truncates)


def needs_no_target_values(target: Target, contract: TableContract) -> bool:
    """Whether a plan needs no values of the target: each event replaces its whole row or does nothing."""
    return target.kind == "current" and not inherits(target.past, contract)


def touched_row(target: Target, contract: TableContract) -> Column:
    """The part of a target's row that planning needs, as the struct ``_row``."""
    names = (ORDER,) if needs_no_target_values(target, contract) else target.rows.columns
    return F.struct(*columns(names)).alias(ROW)


def last_versions(target: Target, contract: TableContract) -> DataFrame:
    """The rows that later events continue: all of a current table, the open ones of a history."""
    return target.rows if target.kind == "current" else target.rows.where(is_open(contract))


def touched_keys(events: DataFrame, target: Target, contract: TableContract) -> DataFrame:
    """The keys of events, for semi joins; where they are few, they are broadcast.

    Broadcast keys may repeat: to remove the repeats would cost a shuffle.
    """
    keys = events.select(*columns(contract.keys))
    return F.broadcast(keys) if target.broadcasts_keys else keys.distinct()


def with_held(events: DataFrame, touched: DataFrame, target: Target, contract: TableContract) -> DataFrame:
    """Add to each event ``_row``, its key's row, and ``__held``, the order of the key's last applied event.

    Source:
        Contract section 6: a key's last applied event is the last event of its row or, without a row, its
        last delete or the last truncate, which only the change log holds.
    """
    keys = list(contract.keys)
    rows = target.in_key_ranges(last_versions(target, contract)).select(
        *columns(keys), touched_row(target, contract)
    )
    marked = events.join(rows.join(touched, keys, "left_semi"), keys, "left")
    held = [column(ROW)[target.last]]
    applied = target.past.where(column(BATCH) <= target.bookmark)
    if target.deletes:
        deletes = (
            target.in_key_ranges(applied.where(column(OP) == DELETE))
            .join(touched, keys, "left_semi")
            .groupBy(*columns(keys))
            .agg(greatest_order().alias("__deleted"))
        )
        marked = marked.join(deletes, keys, "left")
        held.append(column("__deleted"))
    if target.truncates:
        last = applied.where(column(OP) == TRUNCATE).agg(greatest_order().alias("__truncated"))
        marked = marked.crossJoin(F.broadcast(last))
        held.append(column("__truncated"))
    latest = F.greatest(*held) if len(held) > 1 else held[0]
    return marked.withColumn(HELD, latest).drop("__deleted", "__truncated")


def mark_late(events: DataFrame, target: Target, contract: TableContract) -> DataFrame:
    """Mark pending events that are not later than the last applied event of their key.

    Adds ``_row``, ``_late`` (the order is not greater than that of the key's last applied event) and
    ``_tied`` (the two orders are equal).

    Schema:
        events: pending events without truncates.
    """
    marked = with_held(events, touched_keys(events, target, contract), target, contract)
    return (
        marked.withColumn(LATE, F.coalesce(column(ORDER) <= column(HELD), F.lit(False)))
        .withColumn(TIED, F.coalesce(column(ORDER) == column(HELD), F.lit(False)))
        .drop(HELD)
    )


def event_columns(target: Target) -> list[str]:
    """The columns of events that a fold needs."""
    more = [UNSET, *(OPENED_COLUMNS if target.kind == "history" else ())]
    return [*value_columns(target.past), OP, ORDER, TIME, *[c for c in more if c in target.past.columns]]


def past_of(keys: DataFrame, target: Target, contract: TableContract) -> DataFrame:
    """All events of these keys, without truncates, up to the batch that is being applied."""
    of_keys = target.in_key_ranges(target.past.where(column(OP) != TRUNCATE))
    return of_keys.join(keys, list(contract.keys), "left_semi").select(*columns(event_columns(target)))


def with_truncates(events: DataFrame, target: Target) -> DataFrame:
    """Add all truncates of the change log to events of keys."""
    if not target.truncates:
        return events
    truncates = target.past.where(column(OP) == TRUNCATE).select(*columns(event_columns(target)))
    return events.unionByName(truncates, allowMissingColumns=True)


def within_change_log(rows: DataFrame, target: Target) -> DataFrame:
    """Keep the rows that the change log can produce again: no versions that ended before its horizon."""
    if target.kind == "current" or target.horizon is None:
        return rows
    return rows.where(~before(target.horizon, EFFECTIVE_TO))


def difference(old: DataFrame, new: DataFrame, kind: Kind, contract: TableContract) -> DataFrame:
    """Compare the rows that a target has (``old``) with the rows that it is to have (``new``).

    Schema:
        returns: the target's columns + ``_action`` (insert | update | close | remove); rows that stay
            as they are do not appear. (Identity columns) is unique.
    """
    identity, names = identity_columns(kind, contract), new.columns
    matched = all_of(_of("old", name).eqNullSafe(_of("new", name)) for name in identity)
    kinds = {f.name: f.dataType for f in new.schema.fields}
    old_row = F.struct(*[comparable(_of("old", c), kinds[c]) for c in names])
    new_row = F.struct(*[comparable(_of("new", c), kinds[c]) for c in names])
    was, is_ = _of("old", identity[0]).isNotNull(), _of("new", identity[0]).isNotNull()
    action = F.when(~was, INSERT).when(~is_, REMOVE)
    if kind == "history":
        action = action.when(_of("old", ORDER_TO).isNull() & _of("new", ORDER_TO).isNotNull(), CLOSE)
    action = action.otherwise(UPDATE)
    joined = old.alias("old").join(new.alias("new"), matched, "full_outer")
    return joined.where(~(was & is_) | ~old_row.eqNullSafe(new_row)).select(
        action.alias(ACTION), *[F.when(is_, _of("new", c)).otherwise(_of("old", c)).alias(c) for c in names]
    )


def _of(side: str, name: str) -> Column:
    return F.col(quote(side, name))
