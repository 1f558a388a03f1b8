"""Check a small batch of change records without a Spark plan, by the same rules.

Files of parquet are read with pyarrow and decoded in a process that needs no JVM (``session.sail``). Few
records of a stream are decoded here, if their decoder can (``decoders.base.DecodesFew``). All are checked in
that process. What is not known to give there what Spark gives is left to Spark: other text that becomes
another type, the user's own SQL, decoders that can do no more.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T

from kedro_lakehouse.changes.conversion import lossless, same_type
from kedro_lakehouse.changes.events import ORDER, POSITION, RAW, TIME
from kedro_lakehouse.changes.fold import flag_repeats
from kedro_lakehouse.commits.event_frames import AGAIN, REPEAT, TIE
from kedro_lakehouse.commits.small_rules import frame_of
from kedro_lakehouse.decoders.base import DecodesFew, load_decoder
from kedro_lakehouse.decoders.changes import ChangesLayout
from kedro_lakehouse.decoders.dms import DmsLayout
from kedro_lakehouse.decoders.metadata import few_with_metadata, split_off
from kedro_lakehouse.decoders.plain_json import NotPlainError
from kedro_lakehouse.decoders.records import FILE, MALFORMED_RECORD, RecordGroup
from kedro_lakehouse.session.sail import on_sail
from kedro_lakehouse.sources.files import parquet_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from kedro_lakehouse.changes.contract import TableContract
    from kedro_lakehouse.commits.token import BatchToken
    from kedro_lakehouse.decoders.records import Columns, Load
    from kedro_lakehouse.ingestion.reading import FileReader
    from kedro_lakehouse.ingestion.record_rules import RecordRules
    from kedro_lakehouse.sources.files import FileShape

_MOST_BYTES: Final = 4 * 2**20
"""Of larger files together, Spark reads the records."""
_DIGITS: Final = "^[0-9]{1,38}$"
_ORDERED: Final = (
    T.IntegralType,
    T.DecimalType,
    T.StringType,
    T.TimestampType,
    T.TimestampNTZType,
    T.DateType,
)
"""The types of the fields of an order that are written as JSON here as Spark writes them."""


@dataclass(frozen=True, kw_only=True)
class _Group:
    """Records of one shape, as they were read."""

    records: pa.Table
    load: Load
    columns: Mapping[str, T.DataType]
    files: Sequence[str]


def checked_rows(
    reader: FileReader, looked: Sequence[FileShape], rules: RecordRules, token: BatchToken
) -> pa.Table | None:
    """The checked events of a planned batch; None if Spark must read or check them.

    Schema:
        returns: the columns of checked events, in the types that the change log has or gets, without
            ``_raw``; ``__repeat``, ``__tie`` and ``__again`` as ``flag_repeats`` adds them.
    """
    table = reader.table
    state = table.state("changes")
    shapes = [s for s in looked if s.has_rows]
    if state is None or not shapes or not _may_be_small(reader, shapes, rules, table.contract):
        return None
    if reader.file_format == "json":
        decoded = _decoded_lines(reader, looked, rules)
        if decoded is None:
            return None
        events = on_sail(_checked, decoded, rules, table.contract, token)
        return _typed(events, rules.columns, state.columns)
    groups = [group for shape in shapes if (group := _read(shape)) is not None]
    if len(groups) < len(shapes) or sum(g.records.num_rows for g in groups) > table.environment.small_batch:
        return None
    if not all(_has_plain_order(group, rules.layout) for group in groups):
        return None
    events = on_sail(_decoded_and_checked, groups, rules, table.contract, token)
    return _typed(events, rules.columns, state.columns)


def _may_be_small(
    reader: FileReader, shapes: Sequence[FileShape], rules: RecordRules, contract: TableContract
) -> bool:
    """Whether what is declared and what the footers tell allows it."""
    needs_spark = contract.checks or contract.unset_marker is not None or rules.lookups or rules.erased
    if needs_spark or sum(s.file.size for s in shapes) > _MOST_BYTES:
        return False
    if reader.file_format == "json":
        return True
    if reader.file_format != "parquet" or not isinstance(rules.layout, DmsLayout | ChangesLayout):
        return False
    return all(not s.nanoseconds and _keeps_types(dict(s.columns), rules) for s in shapes)


def _keeps_types(found: Mapping[str, T.DataType], rules: RecordRules) -> bool:
    """Whether no value of a file can be lost on its way to the table's type, and no text is parsed."""
    columns = rules.columns
    if not all(_is_kept(c.source_kind, c.kind) for c in columns.conversions(found)):
        return False
    layout = rules.layout
    if not isinstance(layout, DmsLayout):
        return True
    images = [c for c in found if c.startswith(layout.before_prefix)]
    kept = all(
        same_type(
            found[i], columns.types.get(columns.name_of(i.removeprefix(layout.before_prefix)), found[i])
        )
        for i in images
    )
    timed = isinstance(found.get(layout.timestamp or ""), T.TimestampType | T.TimestampNTZType | None)
    return kept and timed


def _is_kept(have: T.DataType | None, want: T.DataType) -> bool:
    if have is None:
        return False
    numbers = isinstance(have, T.NumericType) and isinstance(want, T.NumericType)
    return same_type(have, want) or (numbers and lossless(have, want))


def _read(shape: FileShape) -> _Group | None:
    """Read a file, with the position of each record; None if only Spark knows what it means."""
    from pyspark.sql.pandas.types import to_arrow_schema

    kinds = T.StructType([T.StructField(name, kind) for name, kind in shape.columns])
    rows = parquet_rows(shape.file, to_arrow_schema(kinds))
    if rows is None:
        return None
    name = pa.array([shape.file.name] * rows.num_rows, pa.string())
    number = pa.array(range(1, rows.num_rows + 1), pa.int64())
    place = pa.StructArray.from_arrays([name, number], ["file", "row"])
    records = _as_records(rows, place, name)
    return _Group(records=records, load=shape.load, columns=dict(shape.columns), files=[shape.file.name])


def _decoded_lines(reader: FileReader, looked: Sequence[FileShape], rules: RecordRules) -> pa.Table | None:
    """The decoded events of few records of a stream; None if Spark must read or decode them."""
    decoder, table = load_decoder(rules.decoder), reader.table
    lines = reader.few_lines([file for file in dict.fromkeys(s.file for s in looked) if file.size])
    if lines is None or not isinstance(decoder, DecodesFew):
        return None
    if lines.nbytes > _MOST_BYTES or lines.num_rows > table.environment.small_batch:
        return None
    shapes = [shape.lines for shape in looked if shape.lines is not None]
    lines, facts = split_off(lines)
    with contextlib.suppress(NotPlainError):
        events = decoder.decode_few(lines, shapes, rules.layout, rules.columns, table.contract.keys)
        return few_with_metadata(events, facts, reader.metadata, rules.columns)
    return None


def _as_records(rows: pa.Table, place: Any, file: Any) -> pa.Table:
    """Rows with the columns that a reader adds to each record."""
    added = {
        POSITION: place,
        RAW: pa.nulls(rows.num_rows, pa.string()),  # only rejected events need it, and Spark reads those
        FILE: file,
        MALFORMED_RECORD: pa.array([False] * rows.num_rows, pa.bool_()),
    }
    for column, values in added.items():
        rows = rows.append_column(column, values)
    return rows


def _has_plain_order(group: _Group, layout: Any) -> bool:
    """Whether a log position that is text consists of digits: of other texts Spark says what they mean."""
    sequence = layout.sequence if isinstance(layout, DmsLayout) else None
    if sequence is None or group.load == "full_load" or sequence not in group.columns:
        return True
    if not isinstance(group.columns[sequence], T.StringType):
        return isinstance(group.columns[sequence], T.IntegralType | T.DecimalType)
    texts = group.records[sequence]
    return not texts.null_count and bool(pc.all(pc.match_substring_regex(texts, _DIGITS)).as_py())


def _decoded_and_checked(
    session: SparkSession,
    groups: Sequence[_Group],
    rules: RecordRules,
    contract: TableContract,
    token: BatchToken,
) -> pa.Table:
    """Decode and check records; mark the events that repeat others of the batch, or tie with them."""
    records = [
        RecordGroup(records=frame_of(session, g.records), load=g.load, columns=g.columns, files=g.files)
        for g in groups
    ]
    return _marked(rules.events(records, contract), contract, token)


def _checked(
    session: SparkSession, decoded: pa.Table, rules: RecordRules, contract: TableContract, token: BatchToken
) -> pa.Table:
    """Check decoded events, and mark them."""
    return _marked(rules.checked([frame_of(session, decoded)], contract), contract, token)


def _marked(checked: DataFrame, contract: TableContract, token: BatchToken) -> pa.Table:
    events = token.stamp(checked).drop(RAW)
    if contract.write == "merge":
        events = flag_repeats(events, contract, repeat=REPEAT, tie=TIE, again=AGAIN)
    return events.toArrow()


def _typed(events: pa.Table, columns: Columns, held: Mapping[str, T.DataType]) -> pa.Table | None:
    """The events in Arrow's types of the change log; None if its order or time is of other types by now."""
    from pyspark.sql.pandas.types import to_arrow_type

    wanted: dict[str, pa.DataType] = {n: to_arrow_type(k) for n, k in columns.types.items()}
    for name in (ORDER, TIME, POSITION):
        kind = held.get(name)
        if kind is None or _unzoned(to_arrow_type(kind)) != _unzoned(events.schema.field(name).type):
            return None
        wanted[name] = to_arrow_type(kind)
    order = held[ORDER]
    if not isinstance(order, T.StructType) or not all(isinstance(f.dataType, _ORDERED) for f in order.fields):
        return None
    fields = [pa.field(f.name, wanted.get(f.name, f.type)) for f in events.schema]
    return events.cast(pa.schema(fields))


def _unzoned(kind: pa.DataType) -> pa.DataType:
    """A type without the zones of its times: Sail forgets some."""
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(f.name, _unzoned(f.type)) for f in kind])
    return pa.timestamp("us") if pa.types.is_timestamp(kind) else kind
