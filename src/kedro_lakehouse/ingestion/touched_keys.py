"""The keys of a derived table that changes of its inputs can touch, and the result for these alone."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import BATCH, OP, TRUNCATE, column, columns
from kedro_lakehouse.ingestion.few_values import MOST_COLLECTED, Values
from kedro_lakehouse.ingestion.query_shape import ComputedWholeError
from kedro_lakehouse.names import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import ExitStack

    from pyspark.sql import DataFrame

    from kedro_lakehouse.ingestion.query_shape import QueryShape, Step, Value
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.sources.files import LandedFile

_MOST_CHANGED: Final = 0.1
"""If more than this part of an input's rows has changed, the whole result is computed in less time."""


@dataclass(frozen=True)
class KeyCut:
    """A derived table's result for the keys that were touched; all other keys have the rows that they had."""

    keys: Values
    names: Sequence[str]
    """The keys' names in the table."""
    file: LandedFile
    """The set of input snapshots that it is the result of."""
    result: DataFrame
    rows: int
    """The rows of the table before it."""

    def rows_before(self, state: DataFrame) -> DataFrame:
        """The table's rows of the touched keys."""
        return self.keys.rows_of(state, [quote(name) for name in self.names])


def changed_keys(table: LakeTable, after: int, rows: int, cached: ExitStack) -> Values:
    """The keys of an input that batches after ``after`` have events of; it takes a job.

    Batches that its rows do not have yet are included: a repair may have moved events into them.

    Args:
        table: The input.
        after: The last batch that its rows of before hold.
        rows: How many rows it has.
        cached: Where frames are cached.

    Raises:
        ComputedWholeError: They are too many, or all: the input was truncated.
    """
    keys = table.config.keys
    events = table.read("changes").where(column(BATCH) > after)
    is_truncate = column(OP) == TRUNCATE
    found = Values.of(events.select(*columns(keys), is_truncate.alias("__truncates")), cached)
    if found.rows is None:
        has_truncate = bool(found.frame.where(column(found.frame.columns[-1])).limit(1).collect())
    else:
        has_truncate = any(row[-1] for row in found.rows)
    if has_truncate:
        raise ComputedWholeError(f"{table} was truncated")
    if found.rows is None and (count := found.count()) > max(MOST_COLLECTED, _MOST_CHANGED * rows):
        raise ComputedWholeError(f"{count} of the {rows} rows of {table} have changed")
    frame = found.frame.select(*found.frame.columns[:-1])
    return Values(frame, found.rows and [row[:-1] for row in found.rows])


class TouchedKeys:
    """Runs a derived table's query over parts of its inputs."""

    def __init__(
        self,
        keys_of: Mapping[str, Sequence[str]],
        read: Callable[[str, int], DataFrame],
        over: Callable[[Mapping[str, str]], DataFrame],
        shape: QueryShape,
        cached: ExitStack,
    ) -> None:
        """Take the query; nothing is read yet.

        Args:
            keys_of: The names of the keys of each input.
            read: An input's rows at a snapshot.
            over: The query's result over the given SELECT of each input.
            shape: How the query joins its inputs.
            cached: Where frames are cached.
        """
        self._keys_of, self._read, self._over = keys_of, read, over
        self._shape, self._cached = shape, cached

    def of(
        self,
        changed: Mapping[str, Values],
        before: Mapping[str, int],
        after: Mapping[str, int],
    ) -> list[DataFrame]:
        """The keys that changes of inputs can touch: those of the joined rows that the changes are part of.

        Args:
            changed: The changed keys of each changed input.
            before: The snapshot of each input before the changes.
            after: The snapshot of each input after them.

        Returns:
            Lazy frames of keys; some keys are in several of them.
        """
        return [
            keys
            for alias, values in changed.items()
            for start in self._shape.of_input(alias)
            for keys in self._touched(start, values, (before, after))
        ]

    def result(self, keys: Values, keyed: Sequence[str], at: Mapping[str, int]) -> DataFrame:
        """The query's result at some snapshots of its inputs, for some keys alone."""
        shape = self._shape
        holders, steps = shape.needed_for_keys()
        parts: dict[int, DataFrame] = {}
        for occurrence, held in holders.items():
            wanted = keys
            if len(held) < len(keyed):
                places = [keys.frame.columns[keyed.index(name)] for name in held]
                wanted = Values.of(keys.frame.select(*columns(places)), self._cached)
            rows = self._read(shape.occurrences[occurrence], at[shape.occurrences[occurrence]])
            parts[occurrence] = wanted.rows_of(rows, [_sql(value) for value in held.values()])
        self._follow(steps, [parts], [at])
        return keys.rows_of(self._run(parts, at), [quote(key) for key in keyed])

    def _touched(self, start: int, values: Values, states: Sequence[Mapping[str, int]]) -> list[DataFrame]:
        """The keys of the rows that are joined with changed rows of one occurrence, in each state."""
        alias = self._shape.occurrences[start]
        names = [quote(name) for name in self._keys_of[alias]]
        parts = [{start: values.rows_of(self._read(alias, at[alias]), names)} for at in states]
        self._follow(self._shape.joined_with(start), parts, states)
        keys = list(self._shape.keys)
        return [self._run(p, at).select(*columns(keys)) for p, at in zip(parts, states, strict=True)]

    def _follow(
        self,
        steps: Iterable[Step],
        parts: Sequence[dict[int, DataFrame]],
        states: Sequence[Mapping[str, int]],
    ) -> None:
        """Cut one occurrence after the other down to the rows that join with what is there.

        A row of before may have to be found by a row of after, and the other way round: a left row that has
        no match now is touched if it had one. So the values of all states together are looked for in each.
        """
        for step in steps:
            frames = {id(p[step.source.occurrence]): p[step.source.occurrence] for p in parts}
            found = reduce(
                lambda a, b: a.unionByName(b),
                [frame.select(F.expr(_sql(step.source)).alias("v")) for frame in frames.values()],
            )
            values = Values.of(found.where(column("v").isNotNull()), self._cached)
            alias = self._shape.occurrences[step.into.occurrence]
            cut: dict[int, DataFrame] = {}
            for part, at in zip(parts, states, strict=True):
                if at[alias] not in cut:
                    cut[at[alias]] = values.rows_of(self._read(alias, at[alias]), [_sql(step.into)])
                part[step.into.occurrence] = cut[at[alias]]

    def _run(self, parts: Mapping[int, DataFrame], at: Mapping[str, int]) -> DataFrame:
        """The query over parts of its inputs; an occurrence that is not cut has its input's rows."""
        given: dict[str, str] = {}
        views: dict[str, DataFrame] = {}
        for alias in at:
            numbers = self._shape.of_input(alias)
            if numbers and set(numbers) <= parts.keys():
                rows = reduce(lambda a, b: a.unionByName(b), [parts[n] for n in numbers])
                if len(numbers) > 1:
                    rows = rows.dropDuplicates(list(self._keys_of[alias]))
            else:
                rows = self._read(alias, at[alias])
            view = f"__part_{uuid.uuid4().hex}"
            rows.createOrReplaceTempView(view)
            views[view] = rows
            given[alias] = f"SELECT * FROM {quote(view)}"  # noqa: S608 - a name that was made here
        try:
            return self._over(given)
        finally:  # the analysed query does not need them any more
            for view, rows in views.items():
                rows.sparkSession.catalog.dropTempView(view)


def _sql(value: Value) -> str:
    """A value of an occurrence as SQL over its input's columns."""
    text = quote(value.column)
    for cast in value.casts:
        text = f"{'try_cast' if cast.fails else 'cast'}({text} AS {cast.kind})"
    return text
