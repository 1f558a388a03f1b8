"""Few rows of a derived table's inputs, read with pyarrow: what a change touches is found without Spark.

What pyarrow is not known to find as Spark does is left to Spark: values with several notations (zeros,
infinities, times), casts that may lose something, parts with more rows than the driver takes.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import BATCH, OP, TRUNCATE
from kedro_lakehouse.errors import CommitConflictError
from kedro_lakehouse.formats.base import ReadsFewRows, WritesFiles
from kedro_lakehouse.ingestion.few_values import MOST_COLLECTED, Values, few
from kedro_lakehouse.names import is_reserved_column
from kedro_lakehouse.session.arrow import spark_types
from kedro_lakehouse.session.line import is_spark3

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kedro_lakehouse.ingestion.query_shape import CastTo, Value
    from kedro_lakehouse.lake_table import LakeTable

logger = logging.getLogger(__name__)

_MOST_BYTES: Final = 128 * 2**20
"""Of larger files together Spark reads the rows: it reads them side by side."""
_WIDTHS: Final = {"byte": 8, "short": 16, "integer": 32, "long": 64}
_EXACT: Final = 2**53
"""Up to here each whole number is a double."""


class FewRows:
    """Reads few rows of inputs at snapshots, where their formats can do so without Spark."""

    def __init__(self, inputs: Mapping[str, LakeTable]) -> None:
        """Take the inputs by their aliases; nothing is read yet."""
        self._inputs = inputs

    def part(self, alias: str, snapshot: int, values: Values, into: Sequence[Value]) -> pa.Table | None:
        """The rows of an input whose values ``into`` are among ``values``; None if Spark must look for them.

        Schema:
            returns: the input's columns as the query sees them, without the framework's.
        """
        table = self._inputs[alias]
        state = table.state("current")
        if state is None or not may_read(table) or table.config.rename.keys() & state.columns.keys():
            return None  # a column that `rename` names is not renamed yet
        names = [name for name in state.columns if not is_reserved_column(name)]
        among: dict[str, list[Any]] = {}
        cast: dict[Value, list[Any]] = {}
        for place, value in enumerate(into):
            plain = values.plain(place)
            if plain is None:
                return None
            wanted = before_casts(state.columns[value.column], value.casts, plain)
            if wanted is not None:
                among[value.column] = wanted
            else:
                cast[value] = plain
        found = _found(table, snapshot, among, names)
        for value, plain in cast.items():  # every row has to be looked at
            told = None if found is None else _after_casts(found[value.column], value.casts)
            if found is None or told is None:
                return None
            found = found.filter(pc.is_in(told, pa.array(plain, told.type)))
        if found is None or found.num_rows > MOST_COLLECTED:
            return None
        return found if len(into) == 1 else _of_rows(found, values, into)

    def changed_keys(self, table: LakeTable, after: int) -> Values | None:
        """The keys that the change log has events of, in batches after one; None if Spark must look for them.

        The last column says whether the event is a truncate.
        """
        log = table.state("changes")
        if log is None or log.bookmark is None or not may_read(table):
            return None
        last = max(log.batch, after + 1)
        known = table.format.bounds(table.changes, (), BATCH, after + 1, last)
        if known.rows > MOST_COLLECTED:
            return None
        keys = list(table.config.keys)
        found = _found_in_log(table, {BATCH: list(range(after + 1, last + 1))})
        if found is None or not set(keys) <= set(found.column_names):
            return None
        told = found.select(keys).append_column("__truncates", pc.equal(found[OP], TRUNCATE))
        kinds = [*[spark_types(told.schema)[key] for key in keys], T.BooleanType()]
        return few(lambda: table.session, kinds, _rows_of(told))


def may_read(table: LakeTable) -> bool:
    """Whether rows of a table can be read without Spark, and made a frame."""
    reads = isinstance(table.format, ReadsFewRows) and isinstance(table.format, WritesFiles)
    return reads and not is_spark3() and bool(table.environment.small_batch)


def _found(
    table: LakeTable, snapshot: int, among: Mapping[str, Sequence[Any]], names: Sequence[str]
) -> pa.Table | None:
    lake: Any = table.format
    try:
        rows: pa.Table | None = lake.rows_among(table.name, snapshot, among, names, most_bytes=_MOST_BYTES)
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:  # or it says what is wrong
        logger.debug("%s: Spark looks for its rows: %s", table, type(error).__name__)
        return None
    return rows


def _found_in_log(table: LakeTable, among: Mapping[str, Sequence[Any]]) -> pa.Table | None:
    lake: Any = table.format
    try:
        found = lake.find_rows(table.changes, table.state("changes"), among, most_bytes=_MOST_BYTES)
    except CommitConflictError:  # another run has just written to it
        return None
    return None if found is None else found.rows


def _rows_of(rows: pa.Table) -> list[tuple[Any, ...]]:
    lists = [column.to_pylist() for column in rows.columns]
    return list(zip(*lists, strict=True)) if rows.num_rows else []


def _of_rows(found: pa.Table, values: Values, into: Sequence[Value]) -> pa.Table | None:
    """The rows that have one of the combined values, of those that have one in each column."""
    told = values_of(found, into)
    if told is None:
        return None
    wanted = set(values.rows or ())
    return found.filter(pa.array([row in wanted for row in told], pa.bool_()))


def values_of(rows: pa.Table, wanted: Sequence[Value]) -> list[tuple[Any, ...]] | None:
    """Some values of each row, after their casts; None if Spark must cast them."""
    found = [_after_casts(rows[value.column], value.casts) for value in wanted]
    if any(column is None for column in found):
        return None
    return list(zip(*[c.to_pylist() for c in found if c is not None], strict=True))


def kind_after(kind: T.DataType, casts: Sequence[CastTo]) -> T.DataType:
    """The type of a column after casts of ``values_of``."""
    named = {"byte": T.ByteType(), "short": T.ShortType(), "integer": T.IntegerType(), "long": T.LongType()}
    return (named | {"double": T.DoubleType()})[casts[-1].kind] if casts else kind


def _after_casts(column: pa.ChunkedArray, casts: Sequence[CastTo]) -> pa.ChunkedArray | None:
    """A column after casts that lose nothing; None for another cast."""
    named = {"byte": pa.int8(), "short": pa.int16(), "integer": pa.int32(), "long": pa.int64()}
    for cast in casts:
        wanted = (named | {"double": pa.float64()}).get(cast.kind)
        if wanted is None or not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type)):
            return None
        try:
            column = column.cast(wanted)  # whatever would be lost is an error
        except pa.ArrowInvalid:
            return None
    return column


def before_casts(kind: T.DataType, casts: Sequence[CastTo], wanted: Sequence[Any]) -> list[Any] | None:
    """The values of a column that become the wanted ones by casts; None if that is not known.

    Integers become wider integers or doubles. All other casts are left to Spark.

    Example:
        >>> before_casts(T.IntegerType(), [], [1, None])
        [1, None]
    """
    if not casts:
        return list(wanted)
    width = _WIDTHS.get(_JSON_NAMES.get(type(kind), ""))
    for cast in casts:
        if width is None or (cast.kind != "double" and _WIDTHS.get(cast.kind, 0) < width):
            return None
        width = _WIDTHS.get(cast.kind)
    if casts[-1].kind != "double":
        return list(wanted)
    if any(value is not None and abs(value) >= _EXACT for value in wanted):
        return None
    return [v if v is None else int(v) for v in wanted if v is None or float(v).is_integer()]


_JSON_NAMES: Final[Mapping[type, str]] = {
    T.ByteType: "byte",
    T.ShortType: "short",
    T.IntegerType: "integer",
    T.LongType: "long",
}


def frame_of_rows(session: SparkSession, rows: pa.Table, schema: T.StructType | None = None) -> DataFrame:
    """A frame of few rows, which Spark keeps in its plan; of the types by which Spark reads a table."""
    if schema is None:
        schema = T.StructType([T.StructField(name, kind) for name, kind in spark_types(rows.schema).items()])
    made: Any = session
    # In one batch: of several, Spark reads none behind one without rows.
    frame: DataFrame = made.createDataFrame(rows.combine_chunks(), schema)
    return frame
