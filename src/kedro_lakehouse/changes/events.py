"""The change event: its framework columns and its operations."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from kedro_lakehouse.names import quote

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark.sql import Column, DataFrame

OP: Final = "_op"
ORDER: Final = "_order"
TIME: Final = "_time"
BATCH: Final = "_batch"
POSITION: Final = "_position"
RAW: Final = "_raw"
REASONS: Final = "_reasons"
CONCERNED: Final = "_columns"
"""The columns that the reasons to quarantine an event are about; only quarantine has this column."""
UNSET: Final = "_unset"
"""Names of an upsert's columns that were not sent, sorted; null where all were. Only tables whose source
leaves values out have this column."""

LOOKUP: Final = "_lookup"
"""What an upsert was looked up by in reference tables, by the columns of the events; null for other events.
Only tables whose rows follow their references have this column."""

UPSERT: Final = "upsert"
DELETE: Final = "delete"
TRUNCATE: Final = "truncate"

EVENT_COLUMNS: Final = (OP, ORDER, TIME, BATCH, POSITION)
"""Framework columns of ``<table>_changes``; every other column is a value of the source row."""
OPENED_ORDER: Final = "_opened_order"
OPENED_TIME: Final = "_opened_time"
OPENED_COLUMNS: Final = (OPENED_ORDER, OPENED_TIME)
"""Carried by an event that stands for an open history row: the order and time that opened the row."""

CHECKED_COLUMNS: Final = (*EVENT_COLUMNS, RAW, REASONS)
"""Framework columns of checked events, on their way to ``_changes`` or ``_quarantine``."""


def value_columns(frame: DataFrame) -> list[str]:
    """The source's own columns of a frame of events, in their order."""
    framework = {*CHECKED_COLUMNS, *OPENED_COLUMNS, UNSET, LOOKUP}
    return [c for c in frame.columns if c not in framework]


def column(name: str) -> Column:
    """A column by its exact name, also where the name holds dots or blanks."""
    return F.col(quote(name))


def order_fields(events: DataFrame) -> list[Column]:
    """The fields of ``_order``: windows sort by them as by the struct, by which not every engine can sort."""
    names = events.schema[ORDER].dataType.fieldNames()  # type: ignore[attr-defined]
    return [column(ORDER)[name] for name in names]


def greatest_order() -> Column:
    """The greatest order of a group. On Sail ``max`` is wrong for structs that hold nulls."""
    return F.max_by(column(ORDER), column(ORDER))


def columns(names: Iterable[str]) -> list[Column]:
    """Columns by their exact names."""
    return [column(name) for name in names]


def all_of(conditions: Iterable[Column]) -> Column:
    """Whether all of these conditions hold; true where there are none."""
    return reduce(and_, conditions, F.lit(True))


def cast_or_null(name: str, kind: str) -> Column:
    """A column as another type of SQL; null where a value does not fit it."""
    # As SQL text: before Spark 4 only SQL has try_cast.
    return F.expr(f"try_cast({quote(name)} AS {kind})")
