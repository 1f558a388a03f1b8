"""The keys of a derived table that changes of its inputs can touch, and the result for these alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Final, TypeAlias

from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import BATCH, OP, TRUNCATE, column, columns
from kedro_lakehouse.ingestion.few_rows import frame_of_rows, kind_after, values_of
from kedro_lakehouse.ingestion.few_values import MOST_COLLECTED, Values, few
from kedro_lakehouse.ingestion.query_shape import ComputedWholeError, Value
from kedro_lakehouse.names import quote
from kedro_lakehouse.session.arrow import spark_types

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from contextlib import ExitStack

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql import types as T

    from kedro_lakehouse.ingestion.few_rows import FewRows
    from kedro_lakehouse.ingestion.query_shape import QueryShape, Step
    from kedro_lakehouse.lake_table import LakeTable
    from kedro_lakehouse.sources.files import LandedFile

Sessions: TypeAlias = "tuple[Callable[[], SparkSession], Callable[[], SparkSession]]"

_MOST_CHANGED: Final = 0.1
"""If more than this part of an input's rows has changed, the whole result is computed in less time."""


@dataclass(frozen=True, kw_only=True)
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
    local: pa.Table | None
    """The result's rows, if those that it is computed from were in the driver."""

    def rows_before(self, state: DataFrame) -> DataFrame:
        """The table's rows of the touched keys."""
        return self.keys.rows_of(state, [quote(name) for name in self.names])


def changed_keys(
    table: LakeTable, after: int, rows: int, cached: ExitStack, few_rows: FewRows | None = None
) -> Values:
    """The keys of an input that batches after ``after`` have events of; it takes a job if they are many.

    Batches that its rows do not have yet are included: a repair may have moved events into them.

    Args:
        table: The input.
        after: The last batch that its rows of before hold.
        rows: How many rows it has.
        cached: Where frames are cached.
        few_rows: What reads few events without Spark.

    Raises:
        ComputedWholeError: They are too many, or all: the input was truncated.
    """
    found = few_rows.changed_keys(table, after) if few_rows is not None else None
    if found is None:
        events = table.read("changes").where(column(BATCH) > after)
        is_truncate = column(OP) == TRUNCATE
        told = events.select(*columns(table.config.keys), is_truncate.alias("__truncates"))
        found = Values.of(told, cached)
    if found.rows is None:
        has_truncate = bool(found.frame.where(column(found.frame.columns[-1])).limit(1).collect())
    else:
        has_truncate = any(row[-1] for row in found.rows)
    if has_truncate:
        raise ComputedWholeError(f"{table} was truncated")
    if found.rows is None and (count := found.count()) > max(MOST_COLLECTED, _MOST_CHANGED * rows):
        raise ComputedWholeError(f"{count} of the {rows} rows of {table} have changed")
    return found.part(range(len(table.config.keys)), cached)


@dataclass(frozen=True)
class Part:
    """A part of an input: a lazy frame of its rows, and the rows themselves if they are in the driver."""

    make: Callable[[SparkSession], DataFrame]
    local: pa.Table | None = None


class TouchedKeys:
    """Runs a derived table's query over parts of its inputs."""

    def __init__(  # noqa: PLR0913 - what a query is, and how its inputs are read
        self,
        keys_of: Mapping[str, Sequence[str]],
        read: Callable[[str, int], DataFrame],
        over: Callable[[Mapping[str, DataFrame]], DataFrame],
        shape: QueryShape,
        cached: ExitStack,
        *,
        sessions: Sessions,
        few_rows: FewRows | None = None,
    ) -> None:
        """Take the query; nothing is read yet.

        Args:
            keys_of: The names of the keys of each input.
            read: An input's rows at a snapshot.
            over: The query's result over a frame of each input.
            shape: How the query joins its inputs.
            cached: Where frames are cached.
            sessions: The Spark sessions for rows of tables, and for rows that are in the driver.
            few_rows: What reads few rows without Spark.
        """
        self._keys_of, self._read, self._over = keys_of, read, over
        self._shape, self._cached, self._sessions, self._few = shape, cached, sessions, few_rows

    def of(
        self,
        changed: Mapping[str, Values],
        before: Mapping[str, int],
        after: Mapping[str, int],
    ) -> list[Values]:
        """The keys that changes of inputs can touch: those of the joined rows that the changes are part of.

        Args:
            changed: The changed keys of each changed input.
            before: The snapshot of each input before the changes.
            after: The snapshot of each input after them.

        Returns:
            Keys; some are in several of them. They take one job for each changed occurrence of an input, if
            the rows of the keys are not in the driver.
        """
        return [
            self._touched(start, values, (before, after))
            for alias, values in changed.items()
            for start in self._shape.of_input(alias)
        ]

    def result(self, keys: Values, keyed: Sequence[str], at: Mapping[str, int]) -> tuple[DataFrame, bool]:
        """The query's result at some snapshots of its inputs, for some keys alone.

        Returns:
            A lazy frame, and whether it is computed from rows that are in the driver.
        """
        shape = self._shape
        holders, steps = shape.needed_for_keys()
        parts: dict[int, Part] = {}
        for occurrence, held in holders.items():
            wanted = keys
            if len(held) < len(keyed):
                wanted = keys.part([keyed.index(name) for name in held], self._cached)
            alias = shape.occurrences[occurrence]
            parts[occurrence] = self._part(alias, at[alias], wanted, list(held.values()))
        self._follow(steps, [parts], [at])
        result = keys.rows_of(self._run(parts, at), [quote(key) for key in keyed])
        return result, self._are_local(parts)

    def _touched(self, start: int, values: Values, states: Sequence[Mapping[str, int]]) -> Values:
        """The keys of the rows that are joined with changed rows of one occurrence, in each state.

        If one occurrence has all keys, its rows that can be joined tell them. The query may leave out some of
        these rows; then their keys are computed for nothing.
        """
        alias = self._shape.occurrences[start]
        own, keys, holder = self._keys_of[alias], self._shape.keys, self._holder()
        wanted = [value for value in keys.values() if value is not None]
        if holder == start and all(value.column in own and not value.casts for value in wanted):
            return values.part([own.index(value.column) for value in wanted], self._cached)
        into = [Value(start, name) for name in own]
        parts = [{start: self._part(alias, at[alias], values, into)} for at in states]
        steps = self._shape.joined_with(start)
        reached = [start, *(step.into.occurrence for step in steps)]
        if holder in reached:
            near, steps = steps[: reached.index(holder)], steps[reached.index(holder) :]
            self._follow(near, parts, states)
            if (found := self._values([part[holder] for part in parts], wanted)) is not None:
                return found
        self._follow(steps, parts, states)
        frames = [self._run(p, at).select(*columns(list(keys))) for p, at in zip(parts, states, strict=True)]
        return Values.of(reduce(lambda a, b: a.union(b), frames), self._cached)

    def _holder(self) -> int | None:
        """The occurrence of whose columns all keys are, and which each joined row has."""
        holders = {value.occurrence if value is not None else None for value in self._shape.keys.values()}
        return None if len(holders) > 1 or holders & {None, *self._shape.optional} else holders.pop()

    def _values(self, parts: Sequence[Part], wanted: Sequence[Value]) -> Values | None:
        """Some values of the rows of parts of one occurrence; None if not all rows are in the driver."""
        rows: list[tuple[object, ...]] = []
        kinds: list[T.DataType] = []
        for part in parts:
            told = values_of(part.local, wanted) if part.local is not None else None
            if told is None or part.local is None:
                return None
            rows += told
            of_part = spark_types(part.local.schema)
            kinds = [kind_after(of_part[value.column], value.casts) for value in wanted]
        return few(self._sessions[0], kinds, rows)

    def _part(self, alias: str, snapshot: int, values: Values, into: Sequence[Value]) -> Part:
        """The rows of an input at a snapshot whose values ``into`` are among ``values``."""
        local = self._few.part(alias, snapshot, values, into) if self._few is not None else None
        if local is not None:
            return Part(lambda session: frame_of_rows(session, local), local)
        return Part(lambda _: values.rows_of(self._read(alias, snapshot), [_sql(value) for value in into]))

    def _follow(
        self,
        steps: Iterable[Step],
        parts: Sequence[dict[int, Part]],
        states: Sequence[Mapping[str, int]],
    ) -> None:
        """Cut one occurrence after the other down to the rows that join with what is there.

        A row of before may have to be found by a row of after, and the other way round: a left row that has
        no match now is touched if it had one. So the values of all states together are looked for in each.
        """
        for step in steps:
            sources = list({id(p[step.source.occurrence]): p[step.source.occurrence] for p in parts}.values())
            values = self._values_that_join(sources, step.source)
            alias = self._shape.occurrences[step.into.occurrence]
            cut: dict[int, Part] = {}
            for part, at in zip(parts, states, strict=True):
                if at[alias] not in cut:
                    cut[at[alias]] = self._part(alias, at[alias], values, [step.into])
                part[step.into.occurrence] = cut[at[alias]]

    def _values_that_join(self, sources: Sequence[Part], value: Value) -> Values:
        """The values of one occurrence in some states that other rows may equal; null equals none."""
        local = self._values(sources, [value])
        if local is not None:
            return few(local.session, local.kinds, (row for row in local.rows or () if row[0] is not None))
        found = reduce(
            lambda a, b: a.unionByName(b),
            [part.make(self._sessions[0]()).select(F.expr(_sql(value)).alias("v")) for part in sources],
        )
        return Values.of(found.where(column("v").isNotNull()), self._cached)

    def _run(self, parts: Mapping[int, Part], at: Mapping[str, int]) -> DataFrame:
        """The query over parts of its inputs; an occurrence that is not cut has its input's rows."""
        session = self._sessions[self._are_local(parts)]()
        given: dict[str, DataFrame] = {}
        for alias in at:
            numbers = self._shape.of_input(alias)
            if numbers and set(numbers) <= parts.keys():
                rows = reduce(lambda a, b: a.unionByName(b), [parts[n].make(session) for n in numbers])
                given[alias] = rows.dropDuplicates(list(self._keys_of[alias])) if len(numbers) > 1 else rows
            else:
                given[alias] = self._read(alias, at[alias])
        return self._over(given)

    def _are_local(self, parts: Mapping[int, Part]) -> bool:
        """Whether parts of all occurrences are in the driver."""
        every, used = set(range(len(self._shape.occurrences))), set(self._shape.occurrences)
        is_cut = parts.keys() == every and used == self._keys_of.keys()
        return is_cut and all(part.local is not None for part in parts.values())


def _sql(value: Value) -> str:
    """A value of an occurrence as SQL over its input's columns."""
    text = quote(value.column)
    for cast in value.casts:
        text = f"{'try_cast' if cast.fails else 'cast'}({text} AS {cast.kind})"
    return text
