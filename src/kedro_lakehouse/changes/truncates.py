"""Truncates: each is a delete, at its own order, of every key that has an earlier event."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import (
    OP,
    OPENED_COLUMNS,
    ORDER,
    TIME,
    TRUNCATE,
    UNSET,
    column,
    columns,
    value_columns,
)

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from kedro_lakehouse.changes.contract import TableContract

_TRUNCATES: Final = "__truncates"


def truncate_points(events: DataFrame) -> DataFrame:
    """One row with all truncates in order: an array of structs of ``_order`` and ``_time``."""
    points = events.where(column(OP) == TRUNCATE).groupBy(ORDER).agg(F.max(TIME).alias(TIME))
    return points.agg(F.sort_array(F.collect_list(F.struct(ORDER, TIME))).alias(_TRUNCATES))


def spread_truncates(events: DataFrame, contract: TableContract) -> DataFrame:
    """Replace truncates by truncate events of the keys that they delete; drop those that delete none.

    For each event the first two truncates that are not earlier are taken. A truncate of equal order loses
    the tie with the event: it only stops values from being inherited, so the next one is needed too.

    Schema:
        events: key and value columns + ``_op``, ``_order``, ``_time``; a truncate's keys are null.
        returns: the same columns; every event has a key.
    """
    of_keys = events.where(column(OP) != TRUNCATE)
    marked = of_keys.crossJoin(F.broadcast(truncate_points(events)))
    following = F.slice(F.filter(_TRUNCATES, lambda t: t[ORDER] >= column(ORDER)), 1, 2)
    ends = marked.select(*columns(contract.keys), F.explode(following).alias("__t"))
    kinds = {f.name: f.dataType for f in of_keys.schema.fields}
    nulls = [
        n for n in (*value_columns(of_keys), UNSET, *OPENED_COLUMNS) if n in kinds and n not in contract.keys
    ]
    return of_keys.unionByName(
        ends.select(
            *columns(contract.keys),
            *[F.lit(None).cast(kinds[n]).alias(n) for n in nulls],
            F.lit(TRUNCATE).alias(OP),
            column("__t")[ORDER].alias(ORDER),
            column("__t")[TIME].alias(TIME),
        ),
        allowMissingColumns=True,
    )


def mark_truncated(rows: DataFrame, points: DataFrame, started: Column | None, last: Column) -> DataFrame:
    """Mark rows that a truncate touches: up to their last event (``__inside``) or after it (``__after``).

    ``__inside``: a truncate is after the row's start and not after its last event, so the events that the
    row came from must be folded again; an unknown start counts as before all truncates. ``__after``: a
    truncate is after the row's last event, and ends the row.
    """

    def inside(point: Column) -> Column:
        until = point[ORDER] <= last
        return until if started is None else until & (point[ORDER] > started)

    return (
        rows.crossJoin(F.broadcast(points))
        .withColumn("__inside", F.exists(_TRUNCATES, inside))
        .withColumn("__after", F.exists(_TRUNCATES, lambda point: point[ORDER] > last))
        .drop(_TRUNCATES)
    )
