"""Distinct values of a few columns, by which a frame is cut down to the rows that have them."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property, reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import all_of, columns
from kedro_lakehouse.commits.cache import cache

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from contextlib import ExitStack

    from pyspark.sql import DataFrame, SparkSession

MOST_COLLECTED: Final = 10_000
"""So many values are brought to the driver; more stay in Spark, cached."""
_MOST_LITERALS: Final = 1_000
"""So many values are written into a filter, by which files and row groups are passed over."""
_VALUE: Final = "__value_"

Row = tuple[object, ...]


@dataclass(frozen=True)
class Values:
    """Distinct rows of values; ``rows`` holds them if they are few, else only ``many`` does.

    ``kinds`` are the types of their columns. Few values need no Spark before they are made a frame.
    """

    session: Callable[[], SparkSession]
    kinds: Sequence[T.DataType]
    rows: Sequence[Row] | None
    many: DataFrame | None = None

    @classmethod
    def of(cls, frame: DataFrame, cached: ExitStack) -> Values:
        """The distinct rows of a frame; it takes a job."""
        named = frame.toDF(*_names(len(frame.columns))).distinct()
        kinds = [f.dataType for f in named.schema.fields]
        found = [tuple(row) for row in named.limit(MOST_COLLECTED + 1).collect()]
        if len(found) > MOST_COLLECTED:
            return cls(lambda: frame.sparkSession, kinds, None, cache(named, cached))
        return cls(lambda: frame.sparkSession, kinds, found)

    @classmethod
    def united(cls, several: Sequence[Values], cached: ExitStack) -> Values:
        """The values of several together; it takes a job if some of them are many."""
        known = [one.rows for one in several if one.rows is not None]
        distinct = dict.fromkeys(row for rows in known for row in rows)
        if len(known) == len(several) and len(distinct) <= MOST_COLLECTED:
            return cls(several[0].session, several[0].kinds, list(distinct))
        return cls.of(reduce(lambda a, b: a.union(b), [one.frame for one in several]), cached)

    @cached_property
    def frame(self) -> DataFrame:
        """The values as a frame, whose columns have names of their own."""
        return self._frame_in(self.session()) if self.many is None else self.many

    def _frame_in(self, session: SparkSession) -> DataFrame:
        fields = zip(_names(len(self.kinds)), self.kinds, strict=True)
        schema = T.StructType([T.StructField(name, kind) for name, kind in fields])
        return session.createDataFrame(list(self.rows or ()), schema)

    def part(self, places: Sequence[int], cached: ExitStack) -> Values:
        """The distinct values of some of the columns; it takes a job if they are many."""
        if self.rows is None:
            return Values.of(self.frame.select(*columns([self.frame.columns[i] for i in places])), cached)
        rows = dict.fromkeys(tuple(row[i] for i in places) for row in self.rows)
        return Values(self.session, [self.kinds[i] for i in places], list(rows))

    def count(self) -> int:
        """How many there are; it takes a job if they are many."""
        return self.frame.count() if self.rows is None else len(self.rows)

    def plain(self, column: int = 0) -> list[object] | None:
        """The few values of a column, if each is equal to itself alone and can be written into a filter."""
        if self.rows is None:
            return None
        found = list(dict.fromkeys(row[column] for row in self.rows))
        return found if all(value is None or _is_plain(value) for value in found) else None

    def rows_of(self, frame: DataFrame, texts: Sequence[str]) -> DataFrame:
        """The rows of a frame whose values, given as SQL, are among these; null equals null.

        Returns:
            A lazy frame with the columns of ``frame``.
        """
        if self.rows is not None and not self.rows:
            return frame.where(F.lit(False))
        if len(texts) == 1 and self.rows is not None and len(self.rows) <= _MOST_LITERALS:
            plain = self.plain()
            if plain is not None:
                value, literals = F.expr(texts[0]), [v for v in plain if v is not None]
                has_null = len(literals) < len(plain)
                return frame.where(
                    value.isin(literals) | value.isNull() if has_null else value.isin(literals)
                )
        asked = [f"__asked_{i}" for i in range(len(texts))]
        wanted = self.frame if self.rows is None else F.broadcast(self._frame_in(frame.sparkSession))
        marked = frame.withColumns({name: F.expr(text) for name, text in zip(asked, texts, strict=True)})
        same = all_of(
            one.eqNullSafe(other) for one, other in zip(columns(asked), columns(wanted.columns), strict=True)
        )
        # The values are distinct, so an inner join keeps each row once.
        return marked.join(wanted, same, "inner").select(*columns(frame.columns))


def few(session: Callable[[], SparkSession], kinds: Sequence[T.DataType], rows: Iterable[Row]) -> Values:
    """Few values that were found without Spark."""
    return Values(session, kinds, list(dict.fromkeys(rows)))


def _names(number: int) -> list[str]:
    return [f"{_VALUE}{i}" for i in range(number)]


def _is_plain(value: object) -> bool:
    """Whether a value can be a literal of a filter: a fraction that has two notations cannot."""
    if isinstance(value, float):
        return value not in {0.0, float("inf"), float("-inf")} and value == value  # noqa: PLR0124 - NaN differs
    return isinstance(value, (int, str, Decimal, dt.date)) and not isinstance(value, (bool, dt.datetime))
