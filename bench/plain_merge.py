"""What a careful engineer writes by hand: one batch of `_changes` merged into a table, nothing else.

No bookmark, no audit, no ties, no late events, no schema change: the floor that the project is held to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession


def newest(events: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Keep the event with the greatest order of each key."""
    by_key = Window.partitionBy(*keys).orderBy(F.col("_order").desc())
    return events.withColumn("_n", F.row_number().over(by_key)).where("_n = 1").drop("_n")


def newest_by_time(events: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Keep the events with the greatest time of each key, as the AWS sample jobs do: ties stay."""
    last = events.groupBy(*keys).agg(F.max("_time").alias("_time"))
    return events.join(last, [*keys, "_time"], "left_semi")


def merge(
    session: SparkSession, batch: DataFrame, target: str, keys: Sequence[str], *, guarded: bool = True
) -> None:
    """Merge a batch with one event a key into a table; `guarded` leaves newer rows as they are."""
    batch.createOrReplaceTempView("batch")
    names = session.table(target).columns
    matched = " AND ".join(f"t.{k} = s.{k}" for k in keys)
    newer = "AND s._order > t._order" if guarded else ""
    session.sql(
        f"""
        MERGE INTO {target} t USING batch s ON {matched}
        WHEN MATCHED AND s._op = 'delete' {newer} THEN DELETE
        WHEN MATCHED AND s._op = 'upsert' {newer} THEN UPDATE SET {", ".join(f"{n} = s.{n}" for n in names)}
        WHEN NOT MATCHED AND s._op = 'upsert' THEN
          INSERT ({", ".join(names)}) VALUES ({", ".join(f"s.{n}" for n in names)})
        """
    )
