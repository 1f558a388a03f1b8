"""Plan which rows of a target to insert, update, close or remove.

In a current table whose events replace whole rows the order alone decides. Otherwise events are folded, and
the result is compared with the target's rows.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from kedro_lakehouse.changes.compare import comparable_row
from kedro_lakehouse.changes.events import (
    BATCH,
    OP,
    ORDER,
    TIME,
    TRUNCATE,
    UPSERT,
    column,
    columns,
    order_fields,
    value_columns,
)
from kedro_lakehouse.changes.fold import last_states
from kedro_lakehouse.changes.history import ORDER_FROM, ORDER_LAST, ORDER_TO, is_open, open_rows_as_events
from kedro_lakehouse.changes.plan import (
    ACTION,
    HELD,
    INSERT,
    LATE,
    REMOVE,
    ROW,
    TIED,
    UPDATE,
    Target,
    difference,
    event_columns,
    first_rows,
    needs_no_target_values,
    past_of,
    touched_keys,
    touched_row,
    with_held,
    with_truncates,
    within_change_log,
)
from kedro_lakehouse.changes.truncates import mark_truncated, truncate_points

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.contract import TableContract

_INSIDE: Final = "__inside"
_AFTER: Final = "__after"
_FOLLOWING: Final = "__following"


def rows_by_order(events: DataFrame, target: Target, contract: TableContract) -> DataFrame:
    """Plan a current table in one pass: the event with the greatest order decides about its key.

    Schema:
        events: pending events; no truncate is pending.
        returns: one row for each event: the target's columns + ``_action`` (null where the row stays as it
            is, or another event decides), ``_late`` (not later than the key's last applied event), and
            ``_tied`` (of equal order with that event or with another pending one). If any event is tied,
            the plan is not valid.

    Returns:
        A lazy frame: calling this function starts no Spark job.
    """
    keys = columns(contract.keys)
    names = [n for n in event_columns(target) if n not in (OP, TIME)]
    of_key = Window.partitionBy(*keys).orderBy(*[c.desc() for c in order_fields(events)])
    following = F.lag(column(ORDER)).over(of_key)
    ranked = events.select(*columns([*names, OP]), following.alias(_FOLLOWING))
    held = with_held(ranked, touched_keys(events, target, contract), target, contract)
    order, before, had_row = column(ORDER), column(HELD), column(ROW).isNotNull()
    decides = column(_FOLLOWING).isNull() & (before.isNull() | (order > before))
    exists = column(OP) == UPSERT
    action = F.when(decides, F.when(exists, F.when(had_row, UPDATE).otherwise(INSERT)).when(had_row, REMOVE))
    tied = F.coalesce(order == before, F.lit(False)) | F.coalesce(column(_FOLLOWING) == order, F.lit(False))
    return held.select(
        action.alias(ACTION),
        *columns(names),
        F.coalesce(order <= before, F.lit(False)).alias(LATE),
        tied.alias(TIED),
    )


def changed_rows(
    marked: DataFrame, target: Target, contract: TableContract, *, late: bool, tied: bool
) -> DataFrame:
    """Plan which rows of a target change, and how.

    Schema:
        marked: the result of ``mark_late``; ``late`` and ``tied`` say whether it marked any event so.
        returns: the target's columns + ``_action`` (insert | update | close | remove); rows that stay
            as they are do not appear. (Identity columns) is unique.

    Returns:
        A lazy frame: calling this function starts no Spark job.

    Source:
        Contract section 6.
    """
    if needs_no_target_values(target, contract):
        return _by_order(marked, target, contract, tied=tied)
    return _by_comparison(marked, target, contract, late=late)


def _by_order(marked: DataFrame, target: Target, contract: TableContract, *, tied: bool) -> DataFrame:
    """Plan a current table whose rows come from one event each: the order alone decides.

    Values of the target are read only for keys with a tie: a pending event that has the same order as the
    key's last applied event. Such a key is folded again from all its events.
    """
    keys = list(contract.keys)
    rows = [marked.select(*columns(keys), ROW)]
    events = [marked.where(~column(LATE)).select(*columns(event_columns(target)))]
    again = marked.where(column(TIED)).select(*columns(keys)).distinct()
    if tied:
        events.append(past_of(again, target, contract))
    if target.new_truncates:
        ended = _truncated(target).where(column(_AFTER))
        rows.append(ended.select(*columns(keys), touched_row(target, contract)))
        events.append(_rows_as_events(ended.select(*columns(keys), ORDER), target))
    new = last_states(with_truncates(_union(events), target), contract, truncates=target.truncates)
    held = _union(rows).groupBy(*columns(keys)).agg(F.max(ROW).alias(ROW))
    was, is_ = column(ROW).isNotNull(), column(OP) == UPSERT
    action = F.when(is_ & ~was, INSERT).when(is_, UPDATE).when(was, REMOVE)
    names = [*value_columns(target.past), ORDER]
    planned = new.join(held, keys, "inner").select(action.alias(ACTION), *columns(names))
    planned = planned.where(column(ACTION).isNotNull())
    if not tied:
        return planned
    # The fold of a tied key may give the row that it has already: such a row is not written again.
    old = target.in_key_ranges(target.rows).join(again, keys, "left_semi")
    held_rows = old.select(comparable_row(old, names).alias("__held"))
    stays = (column(ACTION) != REMOVE) & comparable_row(planned, names).eqNullSafe(column("__held"))
    return planned.join(held_rows, stays, "left_anti")


def _by_comparison(marked: DataFrame, target: Target, contract: TableContract, *, late: bool) -> DataFrame:
    """Fold the keys that pending events touch, and compare the result with the target's rows.

    A key with in-order events only is continued: its row in the target (in a history the open version) is
    read as an event, and the pending events are folded onto it. A key with a late event, or with a pending
    truncate inside its past, is folded again from all its events in the change log.

    For example, a key has events with the orders 1 and 3. A pending event with order 5 is folded onto the
    row of event 3. A pending event with order 2 is late: then events 1, 2 and 3 are folded again.
    """
    keys = list(contract.keys)
    continued = [marked.where(column(ROW).isNotNull()).select(f"{ROW}.*")]
    again = [marked.where(column(LATE)).select(*columns(keys))] if late else []
    if target.new_truncates:
        # A pending truncate touches keys of which there is no pending event.
        truncated = _truncated(target)
        again.append(truncated.where(column(_INSIDE)).select(*columns(keys)))
        lasting = truncated.where(column(_AFTER))
        if target.kind == "history":
            lasting = lasting.where(is_open(contract))
        continued.append(lasting.drop(_INSIDE, _AFTER))
    old = _union(continued).dropDuplicates(keys)
    events = marked.where(~column(LATE)).select(*columns(event_columns(target)))
    folded_again = _union(again).distinct() if again else None
    if folded_again is not None:
        old = old.join(folded_again, keys, "left_anti")
    events = _union([_rows_as_events(old, target), events])
    if folded_again is not None:
        # Pending events are part of the past: where they come twice, the fold is the same.
        events = _union([events, past_of(folded_again, target, contract)])
        again_rows = target.in_key_ranges(target.rows).join(folded_again, keys, "left_semi")
        old = _union([old, within_change_log(again_rows, target)])
    new = first_rows(target.kind, with_truncates(events, target), contract, truncates=target.truncates)
    return difference(old, within_change_log(new, target), target.kind, contract)


def _truncated(target: Target) -> DataFrame:
    """The target's rows that a pending truncate touches; only for this is the whole target read."""
    pending = target.past.where((column(OP) == TRUNCATE) & (column(BATCH) > target.bookmark))
    if target.kind == "current":
        started, last = None, column(ORDER)
    else:
        started, last = column(ORDER_FROM), F.coalesce(column(ORDER_TO), column(ORDER_LAST))
    marked = mark_truncated(target.rows, truncate_points(pending), started, last)
    return marked.where(column(_INSIDE) | column(_AFTER))


def _rows_as_events(rows: DataFrame, target: Target) -> DataFrame:
    """Turn rows of the target into events that produce them."""
    if target.kind == "history":
        return open_rows_as_events(rows)
    time = target.past.schema[TIME].dataType
    return rows.withColumns({OP: F.lit(UPSERT), TIME: F.lit(None).cast(time)})


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda a, b: a.unionByName(b, allowMissingColumns=True), frames)
