"""Facts that a stream tells of its records beside their values, as columns of the records.

They come as a struct inside ``_position``, which decoders hand on as it is. From then on they are columns of
the source like those of the value.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import POSITION, column
from kedro_lakehouse.config.metadata import FIELD
from kedro_lakehouse.decoders.few_rows import value_of
from kedro_lakehouse.decoders.plain_json import NotPlainError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import types as T

    from kedro_lakehouse.changes.conversion import Conversion
    from kedro_lakehouse.decoders.records import Columns, RecordGroup


def with_metadata(group: RecordGroup, kinds: Mapping[str, T.DataType]) -> RecordGroup:
    """Make the facts columns of the records; ``_position`` is then (file, row).

    Args:
        kinds: The types of the facts by their columns.
    """
    if not kinds:
        return group
    place = column(POSITION)
    records = group.records.withColumns({name: place[FIELD][name] for name in kinds})
    records = records.withColumn(POSITION, F.struct(place["file"].alias("file"), place["row"].alias("row")))
    return replace(group, records=records, columns={**group.columns, **kinds})


def split_off(lines: pa.Table) -> tuple[pa.Table, pa.Table | None]:
    """Lines whose ``_position`` is (file, row), and the facts of each position; None where there are none."""
    place = lines[POSITION].combine_chunks()
    if place.type.get_field_index(FIELD) < 0:
        return lines, None
    fields = {name: pc.struct_field(place, name) for name in ("file", "row")}
    bare = pa.StructArray.from_arrays(list(fields.values()), list(fields))
    facts = pc.struct_field(place, FIELD)
    columns = {field.name: pc.struct_field(facts, [field.name]) for field in facts.type}
    at = lines.schema.get_field_index(POSITION)
    return lines.set_column(at, POSITION, bare), pa.table({**columns, POSITION: bare})


def few_with_metadata(
    events: pa.Table, facts: pa.Table | None, kinds: Mapping[str, T.DataType], columns: Columns
) -> pa.Table:
    """Add the columns of the table that come from facts to decoded events; each has its line's position.

    Raises:
        NotPlainError: Spark must convert a value.
    """
    if facts is None:
        return events
    rows = {(place["file"], place["row"]): n for n, place in enumerate(facts[POSITION].to_pylist())}
    order = pa.array(
        [rows[place["file"], place["row"]] for place in events[POSITION].to_pylist()], pa.int64()
    )
    found = facts.take(order)
    for conversion in columns.conversions(kinds):
        if conversion.name in events.column_names:  # two columns of the source are one by `rename`
            raise NotPlainError
        events = events.append_column(conversion.name, _converted(found[conversion.source], conversion))
    return events


def _converted(values: pa.ChunkedArray, conversion: Conversion) -> Any:
    from pyspark.sql.pandas.types import to_arrow_type

    if conversion.same_type:
        return values
    if not pa.types.is_string(values.type):
        raise NotPlainError
    texts = [value_of(text, conversion.kind) for text in values.to_pylist()]
    return pa.array(texts, to_arrow_type(conversion.kind))
