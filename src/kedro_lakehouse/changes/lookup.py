"""Look events up in reference tables: each takes columns of the row with the key that it holds."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.asof import join_as_of
from kedro_lakehouse.changes.compare import comparable_row
from kedro_lakehouse.changes.conversion import same_type, sql_type
from kedro_lakehouse.changes.events import LOOKUP, OP, TIME, UNSET, UPSERT, all_of, column, columns
from kedro_lakehouse.changes.history import EFFECTIVE_FROM, EFFECTIVE_TO, TOMBSTONE
from kedro_lakehouse.errors import UnsupportedError
from kedro_lakehouse.names import quote

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True, kw_only=True)
class Lookup:
    """One lookup in a reference: its rows at a snapshot, and what events take from them.

    ``on`` and ``columns`` are as ``enrich`` declares them, ``kinds`` the types of the columns in the table.
    With ``by_time`` the rows are a history, and the version in effect at the event's time counts.
    """

    reference: str
    rows: DataFrame
    on: Mapping[str, str]
    columns: Mapping[str, str]
    kinds: Mapping[str, T.DataType]
    by_time: bool = False


def with_lookup_keys(events: DataFrame, lookups: Sequence[Lookup]) -> DataFrame:
    """Add what upserts are looked up by; what was not sent is not looked up, so neither is its answer sent.

    Schema:
        events: + ``_op``, the columns of the lookups' ``on``, for some tables ``_unset``.
        returns: + ``_lookup``; ``_unset`` names the looked up columns too.

    Returns:
        A lazy frame: calling this function starts no Spark job.
    """
    names = dict.fromkeys(name for lookup in lookups for name in lookup.on)
    keys = F.struct(*[column(name).alias(name) for name in names])
    events = events.withColumn(LOOKUP, F.when(column(OP) == UPSERT, keys))
    if UNSET not in events.columns:
        return events
    unset = column(UNSET)
    for lookup in lookups:
        answer = F.array(*[F.lit(name) for name in lookup.columns.values()])
        lacks = reduce(or_, [F.array_contains(column(UNSET), name) for name in lookup.on])
        both = F.array_sort(F.array_union(unset, answer))
        unset = F.when(F.coalesce(lacks, F.lit(False)), both).otherwise(unset)
    return events.withColumn(UNSET, unset)


def look_up(events: DataFrame, lookups: Iterable[Lookup]) -> DataFrame:
    """Give every event the columns of its lookups, in place of those that it has; null where none matches.

    Schema:
        events: + ``_lookup``, ``_time``.
        returns: the same and the columns of the lookups; each event once.

    Returns:
        A lazy frame: calling this function starts no Spark job.

    Raises:
        UnsupportedError: Events and the versions of a reference have no comparable times.
    """
    for lookup in lookups:
        names = list(lookup.columns.values())
        kept = events.drop(*columns(names))
        keys = {f"__by{i}": key for i, key in enumerate(lookup.on.values())}
        by = [_key(events, name, lookup.rows.schema[key].dataType) for name, key in lookup.on.items()]
        keyed = kept.withColumns(dict(zip(keys, by, strict=True)))
        found = _at_its_time(keyed, keys, lookup) if lookup.by_time else _as_it_is(keyed, keys, lookup)
        values = [column(name).cast(lookup.kinds[name]).alias(name) for name in names]
        events = found.select(*columns(kept.columns), *values)
    return events


def changed_keys(before: Lookup, now: Lookup, *, prefix: str) -> DataFrame:
    """The keys of a reference whose rows differ between two of its states in what events take from them.

    Schema:
        returns: a column for each key, in their order, named by the prefix and a number; each key once.
    """
    keys = {f"{prefix}{i}": key for i, key in enumerate(now.on.values())}
    versions = [c for c in (EFFECTIVE_FROM, EFFECTIVE_TO, TOMBSTONE) if c in now.rows.columns]
    taken = [*now.columns, *(versions if now.by_time else ())]

    def facts(rows: DataFrame) -> DataFrame:
        named = [column(key).alias(name) for name, key in keys.items()]
        return rows.select(*named, comparable_row(rows, taken).alias(f"{prefix}row"))

    old, new = facts(before.rows), facts(now.rows)
    differing = old.exceptAll(new).unionByName(new.exceptAll(old))
    return differing.select(*columns(keys)).distinct()


def same_keys(events: DataFrame, lookup: Lookup, keys: Sequence[str]) -> Column:
    """Whether an event is looked up by these columns, which hold the reference's keys in their order."""
    kinds = [lookup.rows.schema[key].dataType for key in lookup.on.values()]
    by = [_key(events, name, kind) for name, kind in zip(lookup.on, kinds, strict=True)]
    return all_of(one == column(key) for one, key in zip(by, keys, strict=True))


def _key(events: DataFrame, name: str, kind: T.DataType) -> Column:
    """A key that an event is looked up by, as the reference's type; null where it does not fit it."""
    held = events.schema[LOOKUP].dataType[name].dataType  # type: ignore[index]
    if same_type(held, kind):
        return column(LOOKUP)[name]
    # As SQL text: before Spark 4 only SQL has try_cast.
    return F.expr(f"try_cast({quote(LOOKUP, name)} AS {sql_type(kind)})")


def _as_it_is(events: DataFrame, keys: Mapping[str, str], lookup: Lookup) -> DataFrame:
    rows = lookup.rows.select(
        *[column(key).alias(f"{name}_there") for name, key in keys.items()],
        *[column(c).alias(name) for c, name in lookup.columns.items()],
    )
    return events.join(rows, all_of(column(name) == column(f"{name}_there") for name in keys), "left")


def _at_its_time(events: DataFrame, keys: Mapping[str, str], lookup: Lookup) -> DataFrame:
    moment, since = events.schema[TIME].dataType, lookup.rows.schema[EFFECTIVE_FROM].dataType
    is_time = isinstance(moment, T.TimestampType | T.TimestampNTZType | T.DateType)
    if not (is_time and same_type(moment, since)):
        raise UnsupportedError(
            what=f"Events with times of type {moment.simpleString()} cannot be looked up as of these in "
            f"{lookup.reference}, whose versions begin at values of type {since.simpleString()}.",
            remedy="Declare `effective_time` with one type of time in both tables, or use `as_of: arrival`.",
        )
    return join_as_of(events, lookup.rows, on=keys, time=TIME, columns=lookup.columns)
