"""One pass over a column, in bounded memory: sketches of its batches add up to the sketch of the whole."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import pyarrow as pa

from kedro_lakehouse.column_search.values import MAX_VALUE, as_texts, counted, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from numpy.typing import NDArray
    from pyspark.sql import DataFrame

SKETCH_SIZE: Final = 256
_HASH_SPACE: Final = 2.0**64


def hashes_of(texts: Sequence[str]) -> NDArray[np.uint64]:
    """A hash of each text, upper and lower case alike; the same on every machine and in every process."""
    import pandas as pd  # a search does without it: it takes a quarter of a second

    folded = np.array([text.casefold() for text in texts], dtype=object)
    return pd.util.hash_array(folded, categorize=False)


@dataclass
class ColumnSketch:
    """What is known of a column's values so far.

    ``sample`` holds, by their hashes, the distinct values of the 256 smallest hashes and how often each
    occurred: a uniform sample of the distinct values with exact counts, since a value that once fell out
    never comes back. ``heavy`` holds at most 256 values that may be frequent; a count in it is at most
    rows / 256 too low.

    Source:
        Bar-Yossef et al. 2002 (k minimum values); Misra and Gries 1982, Agarwal et al. 2012 (merging).
    """

    kind: str
    rows: int = 0
    nulls: int = 0
    sample: dict[int, tuple[str, int]] = field(default_factory=dict)
    heavy: dict[str, int] = field(default_factory=dict)
    minimum: str | None = None
    maximum: str | None = None

    @classmethod
    def of(cls, column: pa.Array | pa.ChunkedArray) -> Self:
        """Sketch one batch of a column."""
        sketch = cls(kind_of(column.type), rows=len(column), nulls=column.null_count)
        if sketch.kind == "binary":
            return sketch
        values, counts = counted(column)
        ordered = sketch.kind in ("integer", "decimal", "date", "timestamp", "time") and values
        if ordered:
            sketch.minimum, sketch.maximum = as_texts((min(values), max(values)), sketch.kind)
        spelled: Counter[str] = Counter()
        for text, count in zip(as_texts(values, sketch.kind), counts, strict=True):
            spelled[text] += count
        for blank in [text for text in spelled if not any(map(str.isalnum, text))]:
            sketch.nulls += spelled.pop(blank)  # "", "-", "----", "?" stand where a value is missing
        texts = list(spelled)
        hashes = hashes_of(texts)
        for place in _smallest(hashes, SKETCH_SIZE):
            sketch._keep(int(hashes[place]), texts[place][:MAX_VALUE], spelled[texts[place]])
        sketch.heavy = {text[:MAX_VALUE]: count for text, count in spelled.most_common(SKETCH_SIZE)}
        return sketch

    def _keep(self, key: int, text: str, count: int) -> None:
        known = self.sample.get(key)
        self.sample[key] = (min(text, known[0]), known[1] + count) if known else (text, count)

    def merge(self, other: Self) -> None:
        """Take another part of the column in."""
        self.rows += other.rows
        self.nulls += other.nulls
        self.kind = self.kind if other.kind in (self.kind, "empty") else other.kind
        for key, (text, count) in other.sample.items():
            self._keep(key, text, count)
        self.sample = dict(sorted(self.sample.items())[:SKETCH_SIZE])
        total = Counter(self.heavy)
        total.update(other.heavy)
        ranked = total.most_common(SKETCH_SIZE + 1)
        excess = ranked[SKETCH_SIZE][1] if len(ranked) > SKETCH_SIZE else 0
        self.heavy = {text: count - excess for text, count in ranked if count > excess}
        self._widen(other)

    def _widen(self, other: Self) -> None:
        order: Any = float if self.kind in ("integer", "decimal") else str
        known = (self.minimum, other.minimum, self.maximum, other.maximum)
        ends = [text for text in known if text is not None]
        if ends:
            self.minimum, self.maximum = min(ends, key=order), max(ends, key=order)

    @property
    def distinct(self) -> int:
        """How many distinct values there are: exact up to 255, then within some 6 percent."""
        if len(self.sample) < SKETCH_SIZE:
            return len(self.sample)
        return round((SKETCH_SIZE - 1) / ((max(self.sample) + 1) / _HASH_SPACE))

    def to_plain(self) -> dict[str, Any]:
        """The sketch in JSON's types."""
        return vars(self) | {"sample": [[key, *entry] for key, entry in self.sample.items()]}

    @classmethod
    def from_plain(cls, plain: dict[str, Any]) -> Self:
        """Read ``to_plain`` back."""
        return cls(**plain | {"sample": {key: (text, count) for key, text, count in plain["sample"]}})


def _smallest(hashes: NDArray[np.uint64], limit: int) -> list[int]:
    """The places of the smallest hashes, all spellings of the last one among them."""
    lowest = np.unique(hashes)[:limit]
    return [int(place) for place in np.argsort(hashes, kind="stable") if hashes[place] <= lowest[-1]]


def sketch_batches(batches: Iterable[pa.RecordBatch | pa.Table]) -> dict[str, ColumnSketch]:
    """Sketch every column of a table that comes in batches of one schema."""
    return _merged(
        (name, ColumnSketch.of(column))
        for batch in batches
        for name, column in zip(batch.schema.names, batch.columns, strict=True)
    )


def _merged(parts: Iterable[tuple[str, ColumnSketch]]) -> dict[str, ColumnSketch]:
    found: dict[str, ColumnSketch] = {}
    for name, sketch in parts:
        if name in found:
            found[name].merge(sketch)
        else:
            found[name] = sketch
    return found


def sketch_frame(frame: DataFrame) -> dict[str, ColumnSketch]:
    """Sketch every column of a frame: one job, no shuffle; each partition sends a few kilobytes a column."""
    places = [f"c{place}" for place in range(len(frame.columns))]  # mapInArrow parses names: "a.b" is none
    rows = frame.toDF(*places).mapInArrow(_sketch_partition, "name string, sketch string").collect()
    found = _merged((row["name"], ColumnSketch.from_plain(json.loads(row["sketch"]))) for row in rows)
    return {
        name: found.get(place, ColumnSketch("empty"))
        for name, place in zip(frame.columns, places, strict=True)
    }


def _sketch_partition(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Sketch a partition's batches where they lie."""
    sketches = sketch_batches(batches)
    plain = [json.dumps(sketch.to_plain()) for sketch in sketches.values()]
    schema = pa.schema([("name", pa.string()), ("sketch", pa.string())])
    yield pa.RecordBatch.from_pydict({"name": list(sketches), "sketch": plain}, schema=schema)
