"""Counts for the guards of full extracts: rows that each extract holds, and rows that it would delete."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import DELETE, OP, REASONS, UPSERT, all_of, column, columns
from kedro_lakehouse.changes.extract import EXTRACT, HELD_ROW, RETURNS, UNTIL, in_each_extract
from kedro_lakehouse.changes.snapshot_diff import STALE, WAS, extracts_of_scopes, scope_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.contract import TableContract


def count_rows(rows: DataFrame, contract: TableContract) -> DataFrame:
    """Count the rows of each extract.

    Schema:
        returns: ``_extract``, ``landed`` (all rows), ``keyed`` (rows whose key is known), ``rows``
            (rows that are not quarantined).
    """
    valid = F.size(REASONS) == 0
    known_key = all_of(column(key).isNotNull() for key in contract.keys) if contract.keys else valid
    counts = {"landed": F.lit(1), "keyed": F.when(known_key, 1), "rows": F.when(valid, 1)}
    numbers = [n for n in (EXTRACT, UNTIL) if n in rows.columns]
    found = rows.groupBy(*numbers).agg(*[F.count(c).alias(name) for name, c in counts.items()])
    if UNTIL not in numbers:
        return found
    return in_each_extract(found).groupBy(EXTRACT).agg(*[F.sum(name).alias(name) for name in counts])


def count_doubled_keys(rows: DataFrame, contract: TableContract) -> DataFrame:
    """Count the keys that an extract has in more than one valid row.

    Schema:
        returns: ``_extract``, ``doubled``; no row for an extract without such keys. Of runs, for the first
            extract of each that overlaps the one before: other extracts may have such keys too.
    """
    valid = rows.where(F.size(REASONS) == 0)
    if UNTIL in rows.columns:  # where two runs of a key overlap, some two do that follow each other
        before = F.lag(UNTIL).over(Window.partitionBy(*columns(contract.keys)).orderBy(EXTRACT))
        overlaps = valid.withColumn("__overlaps", before >= column(EXTRACT)).where("__overlaps")
        return overlaps.groupBy(EXTRACT).agg(F.count(F.lit(1)).alias("doubled"))
    found = valid.groupBy(*columns(contract.keys), EXTRACT).agg(F.count(F.lit(1)).alias("times"))
    doubled = found.where(column("times") > 1)
    return doubled.groupBy(EXTRACT).agg(F.count(F.lit(1)).alias("doubled"))


def count_changes(differences: DataFrame) -> DataFrame:
    """Count the upserts and deletes of each extract, and its stale rows (see ``snapshot_diff``).

    Schema:
        differences: what ``changes.snapshot_diff.snapshot_diff`` returns.
        returns: ``_extract``, ``upserts``, ``deletes``, ``stale``.
    """
    return differences.groupBy(EXTRACT).agg(
        F.count(F.when(column(OP) == UPSERT, 1)).alias("upserts"),
        F.count(F.when(column(OP) == DELETE, 1)).alias("deletes"),
        F.count(F.when(column(OP) == STALE, 1)).alias("stale"),
    )


def count_in_scope(
    rows: DataFrame,
    differences: DataFrame,
    state: DataFrame | None,
    contract: TableContract,
    extracts: DataFrame,
) -> DataFrame:
    """Count, for each extract, the rows that the table had just before it in the scopes that it covers.

    Schema:
        differences: what ``changes.snapshot_diff.snapshot_diff`` returns.
        state: what ``rows_before`` in ``changes.snapshot_diff`` returns.
        returns: ``_extract``, ``in_scope``.
    """
    upsert, delete = column(OP) == UPSERT, column(OP) == DELETE
    here = scope_of(column(HELD_ROW), contract)
    moves = F.array(
        F.struct(F.when(upsert, here).alias("__scope"), F.lit(1).alias("n")),
        F.struct(F.when(delete | ~column(RETURNS), column(WAS)).alias("__scope"), F.lit(-1).alias("n")),
    )
    moved = (
        differences.where(upsert | delete)
        .select(EXTRACT, F.explode(moves).alias("m"))
        .select(EXTRACT, "m.__scope", "m.n")
        .where(column("__scope").isNotNull())
    )
    if state is not None:
        stood = state.select(F.lit(0).alias(EXTRACT), scope_of(None, contract).alias("__scope"))
        moved = moved.unionByName(stood.withColumn("n", F.lit(1)))
    steps = moved.groupBy("__scope", EXTRACT).agg(F.sum("n").alias("n"))
    spoken = (
        extracts_of_scopes(rows, contract)
        if contract.delete_scope
        else extracts.select(scope_of(None, contract).alias("__scope"), EXTRACT)
    )
    until = (
        Window.partitionBy("__scope").orderBy(EXTRACT).rangeBetween(Window.unboundedPreceding, -1)
    )  # up to the extract before it: its own changes do not count
    marked = steps.withColumn("asked", F.lit(False)).unionByName(
        spoken.select("__scope", EXTRACT, F.lit(0).cast("long").alias("n"), F.lit(True).alias("asked"))
    )
    before = marked.withColumn("before", F.coalesce(F.sum("n").over(until), F.lit(0)))
    return before.where(column("asked")).groupBy(EXTRACT).agg(F.sum("before").alias("in_scope"))
