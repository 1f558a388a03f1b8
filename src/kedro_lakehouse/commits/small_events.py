"""Commit the checked events of a small batch without a Spark plan: pyarrow writes them to files.

A batch with rejected events, or with events that earlier batches may hold too, takes the large way
(``event_frames``).
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import logging
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final, cast

import pyarrow as pa
import pyarrow.compute as pc

from kedro_lakehouse.changes.events import (
    EVENT_COLUMNS,
    OP,
    ORDER,
    REASONS,
    TIME,
    TRUNCATE,
    UPSERT,
)
from kedro_lakehouse.commits.event_frames import AGAIN, REPEAT, TIE, EventFrames, lag_of
from kedro_lakehouse.commits.rows import Staged
from kedro_lakehouse.commits.small_rows import try_small_way
from kedro_lakehouse.commits.small_rules import key_of
from kedro_lakehouse.session.arrow import spark_types

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame
    from pyspark.sql import types as T

    from kedro_lakehouse.commits.token import BatchToken
    from kedro_lakehouse.formats.base import PlacedRows, Stage, TableState
    from kedro_lakehouse.lake_table import LakeTable

logger = logging.getLogger(__name__)

_MARKS: Final = (REPEAT, TIE, AGAIN)
_MOST_BYTES: Final = 32 * 2**20
"""Of larger files of the change log, Spark looks for events that come again."""


def small_events(
    table: LakeTable, token: BatchToken, *, accepted: DataFrame, large: Callable[[], EventFrames]
) -> SmallEvents | None:
    """The events of a small batch; None if the batch takes the large way.

    Args:
        table: The table.
        token: The batch.
        accepted: The checked events, as our own node gave them on: what they are made of is attached.
        large: Makes the events of the large way.
    """
    landed: Any = vars(accepted).get("origin")
    if landed is None:
        return None
    events: pa.Table | None = try_small_way(table, "ingestion", landed.checked_without_spark)
    if events is None or events.num_rows < token.at_least:
        return None
    if pc.any(pc.greater(pc.list_value_length(events[REASONS]), 0)).as_py():
        return None
    return SmallEvents(table, events.drop_columns([REASONS]), large)


class SmallEvents:
    """The accepted events of a batch that has no others, which a commit stages as files."""

    def __init__(self, table: LakeTable, events: pa.Table, large: Callable[[], EventFrames]) -> None:
        """Take the checked events, and what makes the events of the large way."""
        self._table, self._events, self._large = table, events, large
        marked = REPEAT in events.column_names
        self._kept = events.filter(pc.invert(events[REPEAT])) if marked else events

    def columns(self) -> Mapping[str, T.DataType]:
        """The columns that the change log must have to store the events."""
        return spark_types(self._rows().schema)

    def rejected(self) -> DataFrame:
        """No rows: all events are accepted."""
        return self._large().rejected()

    def reading(self) -> AbstractContextManager[None]:
        """Do nothing: the files are read."""
        return contextlib.nullcontext()

    def write(self, stage: Stage, state: TableState) -> Staged:
        """Write the events to a file and stage it; Spark does where earlier batches hold some of them."""
        staged, table, rows = self._staged(), self._table, self._rows()
        if not rows.num_rows:
            return staged
        repeats = state.rows and table.contract.write == "merge" and self._overlaps(staged)
        if repeats and not self._are_apart(state, staged):
            return self._large().write(stage, state)
        files = cast("Any", table.format).write_files(table.changes, state, rows, [])
        if files is None:
            return self._large().write(stage, state)
        cast("Any", stage).put(files)
        stage.expect(state.rows + rows.num_rows)
        logger.debug("%s ingestion: read, checked and written without Spark", table)
        return staged

    def _rows(self) -> pa.Table:
        """The rows of the change log."""
        values = [n for n in self._kept.column_names if n not in (*EVENT_COLUMNS, *_MARKS)]
        return self._kept.select([*EVENT_COLUMNS, *values])

    def _overlaps(self, staged: Staged) -> bool:
        """Whether files of earlier batches may contain events with the same orders; reads only metadata."""
        first = next(iter(self._kept.schema.field(ORDER).type)).name
        return self._table.format.may_hold(self._table.changes, f"{ORDER}.{first}", *staged.first_orders)

    def _are_apart(self, state: TableState, staged: Staged) -> bool:
        """Whether it is known that no event of the change log has the key and the order of one here."""
        table, first = self._table, next(iter(self._kept.schema.field(ORDER).type)).name
        at = [*table.contract.keys, ORDER]
        here = self._kept.select(at)
        if TRUNCATE in self._kept[OP].to_pylist() or not all(map(_is_told_by_repr, here.schema.types)):
            return False
        found: PlacedRows | None = cast("Any", table.format).find_rows(
            table.changes,
            state,
            {key: pc.unique(here[key]).to_pylist() for key in table.contract.keys},
            most_bytes=_MOST_BYTES,
            near=(f"{ORDER}.{first}", *staged.first_orders),
        )
        if found is None or found.rows.select(at).schema.types != here.schema.types:
            return False
        held = {key_of(row, at) for row in found.rows.select(at).to_pylist()}
        return not any(key_of(row, at) in held for row in here.to_pylist())

    def _staged(self) -> Staged:
        """The counts and facts of the batch, as Spark observes them on the large way."""
        kept = self._kept
        ops = kept[OP].to_pylist()
        marked = REPEAT in kept.column_names
        again = kept[AGAIN].to_pylist() if marked else [True] * kept.num_rows
        orders = sorted(kept[ORDER].to_pylist(), key=_rank)
        ends = (orders[0], orders[-1]) if orders else ({}, {})
        times = kept[TIME] if pa.types.is_timestamp(kept.schema.field(TIME).type) else None
        last = pc.max(times).as_py() if times is not None else None
        return Staged(
            events_in=self._events.num_rows,
            quarantined=0,
            applied=kept.num_rows,
            ties=(pc.sum(kept[TIE]).as_py() or 0) if marked else 0,
            upserts=ops.count(UPSERT),
            has_distinct_keys=not any(a or op == TRUNCATE for a, op in zip(again, ops, strict=True)),
            first_orders=(_first(ends[0]), _first(ends[1])),
            facts={
                "lag_seconds": lag_of(last.isoformat() if last is not None else None),
                "min_order": _text(ends[0]) if orders else None,
                "max_order": _text(ends[1]) if orders else None,
            },
        )


def _is_told_by_repr(kind: pa.DataType) -> bool:
    """Whether values of a type are equal where their texts are: 0.0 and -0.0 are equal, too."""
    if pa.types.is_struct(kind):
        return all(_is_told_by_repr(field.type) for field in kind)
    return not (pa.types.is_floating(kind) or pa.types.is_nested(kind))


def _rank(order: Mapping[str, Any]) -> list[tuple[bool, Any]]:
    """What orders are compared by: field by field, nulls lowest."""
    return [(value is not None, value) for value in order.values()]


def _first(order: Mapping[str, Any]) -> Any:
    return next(iter(order.values()), None)


def _text(order: Mapping[str, Any]) -> str:
    """An order as JSON, as Spark writes it: without nulls, and with microseconds."""
    parts = [f"{json.dumps(n, ensure_ascii=False)}:{_value(v)}" for n, v in order.items() if v is not None]
    return "{" + ",".join(parts) + "}"


def _value(value: Any) -> str:
    if isinstance(value, dt.datetime):
        zoned = value.tzinfo is not None
        moment = value.astimezone(dt.UTC).replace(tzinfo=None) if zoned else value
        return f'"{moment.isoformat(timespec="microseconds")}{"Z" if zoned else ""}"'
    if isinstance(value, Decimal):
        return format(value, "f")
    return f'"{value}"' if isinstance(value, dt.date) else json.dumps(value, ensure_ascii=False)
