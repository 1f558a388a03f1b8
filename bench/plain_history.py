"""A history by hand, as it is often written: a full outer join, and the whole dimension written again.

Events are taken in the order of arrival: one that is late, or the second of a key in a batch, is lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from plain_merge import newest
from pyspark.sql import functions as F

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession


def rewrite_history(session: SparkSession, events: DataFrame, target: str, keys: Sequence[str]) -> None:
    """Close the rows of changed keys, open their new ones, and write every row of the table again."""
    table = session.table(target)
    last = newest(events, keys)
    last = last.select(*[F.col(c).alias(f"n_{c}") for c in last.columns])
    matched = [F.col(k) == F.col(f"n_{k}") for k in keys]
    joined = table.where("is_current").join(last, matched, "full_outer")
    ended = F.col(f"n_{keys[0]}").isNotNull()
    given = {"_order_to": "n__order", "effective_to": "n__time"}
    old = joined.where(F.col(keys[0]).isNotNull()).select(
        *[
            (~ended).alias(c) if c == "is_current"
            else F.when(ended, F.col(given[c])).alias(c) if c in given
            else F.col(c)
            for c in table.columns
        ]
    )  # fmt: skip
    opened = {
        "_order_from": F.col("n__order"), "_order_last": F.col("n__order"),
        "effective_from": F.col("n__time"),
        "_order_to": F.lit(None), "effective_to": F.lit(None), "is_current": F.lit(True),
    }  # fmt: skip
    new = joined.where("n__op = 'upsert'").select(
        *[
            opened.get(c, F.col(f"n_{c}") if f"n_{c}" in last.columns else F.lit(None)).alias(c)
            for c in table.columns
        ]
    )
    closed = table.where("not is_current")
    closed.unionByName(old).unionByName(new).writeTo(target).overwrite(F.lit(True))
