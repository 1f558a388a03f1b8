"""Records of streams as lines: what readers of JSON lines take, in Arrow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from kedro_lakehouse.config.metadata import FIELD
from kedro_lakehouse.schema_registries.records import plain_text

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyspark.sql import types as T

    from kedro_lakehouse.schema_registries.records import RecordReader
    from kedro_lakehouse.sources.metadata import Metadata
    from kedro_lakehouse.sources.records import Record

FEW_BYTES: Final = 32_000_000
"""Records of ranges of so many bytes, by what was planned, are read by the driver, if they have no more."""


def as_lines(
    chunks: Sequence[tuple[str, Sequence[Record]]], reader: RecordReader | None, facts: Metadata
) -> pa.Table | None:
    """Records as lines; None if these are too large for this process, or there are none."""
    import pyarrow as pa

    found, size = list[pa.RecordBatch](), 0
    for partition, chunk in chunks:
        found.append(lines_of(partition, chunk, reader, facts))
        size += found[-1].nbytes
        if size > FEW_BYTES:
            return None
    return pa.Table.from_batches(found) if found else None


def type_of_lines(facts: Metadata) -> T.StructType:
    """Spark's type of the lines that ``lines_of`` makes."""
    from pyspark.sql import types as T

    place = T.StructType().add("file", "string").add("row", "long")
    if kinds := facts.kinds():
        place = place.add(FIELD, T.StructType([T.StructField(name, kind) for name, kind in kinds.items()]))
    line = T.StructType().add("value", "string").add("key", "string")
    return line.add("_position", place).add("__file", "string")


def lines_of(
    partition: str, records: Sequence[Record], reader: RecordReader | None, facts: Metadata
) -> pa.RecordBatch:
    """Records of a partition as lines; ``reader`` reads those in Avro."""
    import pyarrow as pa

    values, keys = [r.value for r in records], [r.key for r in records]
    place: dict[str, Any] = {
        "file": pa.array([r.file for r in records], pa.string()),
        "row": pa.array([r.row for r in records], pa.int64()),
    }
    if facts.columns:
        place[FIELD] = facts.arrays(records, reader)
    return pa.RecordBatch.from_arrays(
        [
            pa.array(map(reader.text, values, keys) if reader else map(plain_text, values), pa.string()),
            pa.array(map(reader.key if reader else plain_text, keys), pa.string()),
            cast("pa.Array", pa.StructArray.from_arrays(list(place.values()), list(place))),
            pa.array([partition] * len(records), pa.string()),
        ],
        ["value", "key", "_position", "__file"],
    )
