"""As-of joins: each fact meets the version of its row that was in effect at the fact's time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import all_of, column
from kedro_lakehouse.changes.history import EFFECTIVE_FROM, EFFECTIVE_TO, ORDER_FROM, TOMBSTONE
from kedro_lakehouse.errors import MissingColumnError, UnsupportedError, listed
from kedro_lakehouse.names import quote

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

_VERSIONS: Final = "__versions"
_FOUND: Final = "__found"
_KEY: Final = "__key_"


def join_as_of(  # noqa: PLR0913 - the parts of a join
    facts: DataFrame,
    history: DataFrame,
    *,
    on: Mapping[str, str] | Sequence[str],
    time: str,
    columns: Mapping[str, str] | Sequence[str],
    how: Literal["left", "inner"] = "left",
) -> DataFrame:
    """Give every fact the columns of the version that was in effect at its time.

    A version is in effect from its ``effective_from`` until before its ``effective_to``; of several
    that match, the one with the greatest ``_order_from`` counts. A deleted row is not in effect.

    Schema:
        facts: any columns, among them those of ``on`` and ``time``.
        history: a history table as its dataset gives it.
        returns: the columns of the facts, and those taken from the history; each fact once. A fact for
            which no version was in effect gets nulls, or (``how="inner"``) is left out.

    Args:
        facts: What happened, one row each; rows may be equal to each other.
        history: The versions.
        on: Key columns of the history, by the facts' columns that hold them; or names that are both.
        time: The facts' column with the time, comparable with ``effective_from``.
        columns: Columns of the history to take; as a mapping with the names to give them.
        how: What becomes of a fact without a version.

    Returns:
        A lazy frame: calling this function starts no Spark job. Versions are grouped by key first, so that
        the join is an equi-join of the keys.

    Raises:
        MissingColumnError: A named column is not in its frame.
        UnsupportedError: A taken column would have the name of a column of the facts.
    """
    keys = dict(on) if isinstance(on, Mapping) else {name: name for name in on}
    taken = dict(columns) if isinstance(columns, Mapping) else {name: name for name in columns}
    _require("the facts", [*keys, time], facts)
    _require("the history", [*keys.values(), *taken, EFFECTIVE_FROM, EFFECTIVE_TO, ORDER_FROM], history)
    if doubled := sorted({n.lower() for n in taken.values()} & {c.lower() for c in facts.columns}):
        raise UnsupportedError(
            what=f"An as-of join that takes columns which the facts have already: {listed(doubled)}.",
            remedy="Give them other names: columns={column of the history: new name}.",
        )
    joined = facts.join(_versions(history, keys, taken), _same_keys(facts, keys), "left")
    found = joined.withColumn(_FOUND, _newest(joined, time))
    if TOMBSTONE in history.columns:
        found = found.withColumn(_FOUND, F.when(~column(_FOUND)["dead"], column(_FOUND)))
    if how == "inner":
        found = found.where(column(_FOUND).isNotNull())
    values = column(_FOUND)["values"]
    picked = [values.getField(f"c{i}").alias(name) for i, name in enumerate(taken.values())]
    return found.select(*[column(c) for c in facts.columns], *picked)


def _require(place: str, wanted: Sequence[str], frame: DataFrame) -> None:
    if missing := [c for c in wanted if c not in frame.columns]:
        raise MissingColumnError(table=place, missing=missing, found=frame.columns, place="join_as_of")


def _versions(history: DataFrame, keys: Mapping[str, str], taken: Mapping[str, str]) -> DataFrame:
    """One row per key, with all its versions: so no fact can match more than one row."""
    dead = F.coalesce(column(TOMBSTONE), F.lit(False)) if TOMBSTONE in history.columns else F.lit(False)
    version = F.struct(
        column(ORDER_FROM).alias("order"),
        column(EFFECTIVE_FROM).alias("from"),
        column(EFFECTIVE_TO).alias("to"),
        dead.alias("dead"),
        F.struct(*[column(c).alias(f"c{i}") for i, c in enumerate(taken)]).alias("values"),
    )
    return history.groupBy(*[column(k).alias(f"{_KEY}{i}") for i, k in enumerate(keys.values())]).agg(
        F.collect_list(version).alias(_VERSIONS)
    )


def _same_keys(facts: DataFrame, keys: Mapping[str, str]) -> Column:
    return all_of(facts[quote(name)] == column(f"{_KEY}{i}") for i, name in enumerate(keys))


def _newest(joined: DataFrame, time: str) -> Column:
    """Of the versions in effect at the time, the one with the greatest order; null where there is none."""
    kind = joined.schema[_VERSIONS].dataType.elementType  # type: ignore[attr-defined]
    moment = column(time)

    def in_effect(version: Column) -> Column:
        return (version["from"] <= moment) & (version["to"].isNull() | (moment < version["to"]))

    def later(held: Column, version: Column) -> Column:
        newer = held.isNull() | (version["order"] > held["order"])
        return F.when(in_effect(version) & newer, version).otherwise(held)

    return F.aggregate(column(_VERSIONS), F.lit(None).cast(kind), later)
