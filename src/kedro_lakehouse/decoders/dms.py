"""AWS DMS records in files: a full load, whose Op has no meaning, then changes with I, U and D."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import DELETE, OP, ORDER, POSITION, TIME, UPSERT, cast_or_null, column
from kedro_lakehouse.changes.validate import convert
from kedro_lakehouse.decoders.records import BEFORE, CARRIED, FILE, Columns, RecordGroup

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

SEQUENCE_TYPE: Final = T.DecimalType(38, 0)
_EPOCH: Final = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - zone-less, as DMS writes its times


@dataclass(frozen=True, kw_only=True)
class DmsLayout:
    """The columns that a DMS task adds to a table's own, by the names that the task gives them.

    ``first_valid_from`` replaces the time of full-load rows, where it is declared. ``entity`` is set where
    records of several tables come together: (table,) or (schema, table).
    """

    op: str = "Op"
    sequence: str | None = None
    timestamp: str | None = None
    timestamp_format: str | None = None
    before_prefix: str = "BI_"
    first_valid_from: dt.datetime | None = None
    entity: tuple[str, ...] | None = None

    def order_type(self) -> T.StructType:
        """The type of ``_order``: a log position, or else commit time, file name and row number."""
        if self.sequence:
            return T.StructType([T.StructField(self.sequence, SEQUENCE_TYPE)])
        place = [T.StructField("file_name", T.StringType()), T.StructField("row_number", T.LongType())]
        first = [T.StructField(self.timestamp.lstrip("_"), T.TimestampNTZType())] if self.timestamp else []
        return T.StructType(first + place)


class DmsDecoder:
    """Decodes records of a DMS task as rows: the table's columns beside those that the task adds."""

    def decode(
        self, group: RecordGroup, layout: DmsLayout, columns: Columns, keys: tuple[str, ...]
    ) -> DataFrame:
        """Decode records into events, as ``ChangeDecoder`` says; without a commit time without ``_time``.

        Source:
            AWS DMS user guide, Amazon S3 as a target; contract sections 1 and 8.
        """
        time = _time(group, layout)
        facts_of_event = {OP: _op(group, layout), ORDER: _order(group, layout, time)}
        if layout.timestamp:
            facts_of_event[TIME] = time
        before = _before(group, layout, columns, keys)
        if before is not None:
            facts_of_event[BEFORE] = before
        kept = [*facts_of_event, *[c for c in CARRIED if c != FILE]]
        facts = group.records.withColumns(facts_of_event)
        converted = convert(facts, columns.conversions(group.columns), keep=kept)
        if before is None:
            return converted
        changed = F.lit(False)
        for key in keys:
            changed |= ~column(BEFORE)[key].eqNullSafe(column(key))
        key_change = (column(OP) == UPSERT) & column(BEFORE).isNotNull() & changed
        return converted.withColumn(BEFORE, F.when(key_change, column(BEFORE)))


def _op(group: RecordGroup, layout: DmsLayout) -> Column:
    if group.load == "full_load":
        return F.lit(UPSERT)
    op = column(layout.op)
    return F.when(op.isin("I", "U"), UPSERT).when(op == "D", DELETE)


def _time(group: RecordGroup, layout: DmsLayout) -> Column:
    name, full = layout.timestamp, group.load == "full_load"
    if full and layout.first_valid_from is not None:
        return F.lit(layout.first_valid_from.isoformat(sep=" ")).cast("timestamp_ntz")
    epoch = F.lit(_EPOCH.isoformat(sep=" ")).cast("timestamp_ntz")
    if not name or name not in group.columns:
        return epoch if full else F.lit(None).cast("timestamp_ntz")
    if isinstance(group.columns[name], T.StringType) and layout.timestamp_format:
        value = F.try_to_timestamp(column(name), F.lit(layout.timestamp_format)).cast("timestamp_ntz")
    else:
        value = cast_or_null(name, "timestamp_ntz")
    return F.coalesce(value, epoch) if full else value


def _order(group: RecordGroup, layout: DmsLayout, time: Column) -> Column:
    full = group.load == "full_load"
    if layout.sequence:
        value = F.lit(0) if full else cast_or_null(layout.sequence, "decimal(38,0)")
        return F.struct(value.cast(SEQUENCE_TYPE).alias(layout.sequence))
    place = [
        (F.lit("") if full else column(POSITION)["file"]).alias("file_name"),
        column(POSITION)["row"].alias("row_number"),
    ]
    if layout.timestamp:
        epoch = F.lit(_EPOCH.isoformat(sep=" ")).cast("timestamp_ntz")
        return F.struct((epoch if full else time).alias(layout.timestamp.lstrip("_")), *place)
    return F.struct(*place)


def _before(group: RecordGroup, layout: DmsLayout, columns: Columns, keys: tuple[str, ...]) -> Column | None:
    """The key before the change, in the table's types: before images where given, else the key itself.

    None if no record of the group has such an image.
    """
    sources = {columns.name_of(s): s for s in group.columns if s not in columns.control}
    images = {
        k: layout.before_prefix + sources[k]
        for k in keys
        if k in sources and layout.before_prefix + sources[k] in group.columns
    }
    kind = T.StructType([T.StructField(k, columns.types[k]) for k in keys])
    if group.load == "full_load" or not images or not sources.keys() >= set(keys):
        return None
    fields, given = [], F.lit(False)
    for key in keys:
        now = columns.conversion(sources[key], group.columns[sources[key]]).value()
        if key not in images:
            fields.append(now.alias(key))
            continue
        image = images[key]
        kind_here = group.columns[image]
        old = (
            column(image)
            if kind_here == columns.types[key]
            else cast_or_null(image, columns.types[key].simpleString())
        )
        fields.append(F.coalesce(old, now).alias(key))
        given |= column(image).isNotNull()
    return F.when(given, F.struct(*fields)).cast(kind)
