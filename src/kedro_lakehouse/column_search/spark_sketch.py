"""One Spark pass over a table: each partition's batches are sketched where they lie, then added up."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from kedro_lakehouse.column_search.sketch import ColumnSketch, sketch_batches

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql import DataFrame

_SCHEMA: Final = "name string, sketch string"


def sketch_frame(frame: DataFrame) -> dict[str, ColumnSketch]:
    """Sketch every column of a frame: one job, no shuffle; each partition sends a few kilobytes a column."""
    found: dict[str, ColumnSketch] = {}
    places = [f"c{place}" for place in range(len(frame.columns))]  # mapInArrow parses names: "a.b" is none
    for row in frame.toDF(*places).mapInArrow(_sketch_partition, _SCHEMA).collect():
        sketch = ColumnSketch.from_plain(json.loads(row["sketch"]))
        if row["name"] in found:
            found[row["name"]].merge(sketch)
        else:
            found[row["name"]] = sketch
    return {
        name: found.get(place, ColumnSketch("empty"))
        for name, place in zip(frame.columns, places, strict=True)
    }


def _sketch_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    sketches = sketch_batches(batches)
    yield pa.RecordBatch.from_pydict(
        {
            "name": list(sketches),
            "sketch": [json.dumps(sketch.to_plain()) for sketch in sketches.values()],
        },
        schema=pa.schema([("name", pa.string()), ("sketch", pa.string())]),
    )
