"""Distinct values of a few columns, by which a frame is cut down to the rows that have them."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import all_of, columns
from kedro_lakehouse.commits.cache import cache

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import ExitStack

    from pyspark.sql import DataFrame

MOST_COLLECTED: Final = 10_000
"""So many values are brought to the driver; more stay in Spark, cached."""
_MOST_LITERALS: Final = 1_000
"""So many values are written into a filter, by which files and row groups are passed over."""
_VALUE: Final = "__value_"


@dataclass(frozen=True)
class Values:
    """Distinct rows of values; ``rows`` holds them if they are few, else only ``frame`` does."""

    frame: DataFrame
    rows: Sequence[tuple[object, ...]] | None

    @classmethod
    def of(cls, frame: DataFrame, cached: ExitStack) -> Values:
        """The distinct rows of a frame; it takes a job."""
        named = frame.toDF(*[f"{_VALUE}{i}" for i in range(len(frame.columns))]).distinct()
        found = [tuple(row) for row in named.limit(MOST_COLLECTED + 1).collect()]
        if len(found) > MOST_COLLECTED:
            return cls(cache(named, cached), None)
        return cls(frame.sparkSession.createDataFrame(found, named.schema), found)

    def count(self) -> int:
        """How many there are; it takes a job if they are many."""
        return self.frame.count() if self.rows is None else len(self.rows)

    def rows_of(self, frame: DataFrame, texts: Sequence[str]) -> DataFrame:
        """The rows of a frame whose values, given as SQL, are among these; null equals null.

        Returns:
            A lazy frame with the columns of ``frame``.
        """
        if self.rows is not None and not self.rows:
            return frame.where(F.lit(False))
        if len(texts) == 1 and self.rows is not None and len(self.rows) <= _MOST_LITERALS:
            literals = [row[0] for row in self.rows if row[0] is not None]
            if all(map(_is_plain, literals)):
                value = F.expr(texts[0])
                has_null = len(literals) < len(self.rows)
                return frame.where(
                    value.isin(literals) | value.isNull() if has_null else value.isin(literals)
                )
        asked = [f"__asked_{i}" for i in range(len(texts))]
        wanted = self.frame if self.rows is None else F.broadcast(self.frame)
        marked = frame.withColumns({name: F.expr(text) for name, text in zip(asked, texts, strict=True)})
        same = all_of(
            one.eqNullSafe(other)
            for one, other in zip(columns(asked), columns(self.frame.columns), strict=True)
        )
        # The values are distinct, so an inner join keeps each row once.
        return marked.join(wanted, same, "inner").select(*columns(frame.columns))


def _is_plain(value: object) -> bool:
    """Whether a value can be a literal of a filter: a fraction that has two notations cannot."""
    if isinstance(value, float):
        return value not in {0.0, float("inf"), float("-inf")} and value == value  # noqa: PLR0124 - NaN differs
    return isinstance(value, (int, str, Decimal, dt.date)) and not isinstance(value, (bool, dt.datetime))
