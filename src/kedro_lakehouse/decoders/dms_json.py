"""AWS DMS records as it writes them to Kinesis and Kafka: one JSON object with data and metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import column
from kedro_lakehouse.decoders.dms import DmsDecoder, DmsLayout
from kedro_lakehouse.decoders.lines import (
    CARRIED_BY_LINES,
    TEXTS,
    VALUE,
    LineShape,
    exact,
    names_of,
    original,
    parsed,
    plain,
    text_struct,
    texts,
)
from kedro_lakehouse.decoders.records import FILE, MALFORMED_RECORD, Load, RecordGroup, computed_once

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

COMMIT_TIME: Final = "__commit_time"
"""The control column that holds the time of a record's metadata."""

_META: Final = text_struct(
    ["timestamp", "commit-timestamp", "record-type", "operation", "schema-name", "table-name"]
)
_BEFORE_IMAGE: Final = "before-image"
_OPS: Final = {"load": "I", "insert": "I", "update": "U", "delete": "D"}


class DmsJsonDecoder(DmsDecoder):
    """Decodes records of a DMS task in JSON, flattened into the columns that its files have.

    Source:
        AWS DMS user guide, Kinesis Data Streams and Apache Kafka as targets.
    """

    def discover(self, lines: DataFrame, layout: DmsLayout) -> list[LineShape]:
        """Find the names in data and before images, separately for rows of the full load and for changes."""
        kind = _envelope(TEXTS, TEXTS)
        lines_of_kinds = _with_kinds(lines, column(VALUE), kind, layout)
        keys = [
            F.collect_set(F.array_sort(F.map_keys(column("__m")[part]))).alias(alias)
            for part, alias in (("data", "names"), (_BEFORE_IMAGE, "images"))
        ]
        shapes = []
        for row in lines_of_kinds.groupBy(FILE, "__kind").agg(*keys).collect():
            before = [layout.before_prefix + n for n in names_of(row["images"])]
            names = names_of([*row["names"], before])
            known = row["__kind"] != "skipped"
            shapes.append(
                LineShape(
                    place=row[FILE], columns=texts(names) if known else (), has_rows=known, kind=row["__kind"]
                )
            )
        return shapes

    def unwrap(
        self, lines: DataFrame, shapes: Sequence[LineShape], layout: DmsLayout, *, load: Load = "changes"
    ) -> list[RecordGroup]:
        """Group the full load and the changes; control records and those of other tables are left out."""
        del load
        groups = []
        for kind, is_load in (("full_load", True), ("changes", False)):
            kinds = {kind} if is_load else {kind, "malformed"}
            members = [s for s in shapes if s.kind in kinds]
            if members:
                groups.append(self._group(lines, members, layout, kinds))
        return groups

    def _group(
        self, lines: DataFrame, members: Sequence[LineShape], layout: DmsLayout, kinds: set[str]
    ) -> RecordGroup:
        prefix = layout.before_prefix
        names = names_of([n for n, _ in s.columns] for s in members)
        images = [n.removeprefix(prefix) for n in names if n.startswith(prefix)]
        kind = _envelope(text_struct(names or ["__none"]), text_struct(images or ["__none"]))
        lines_of_kinds = _with_kinds(lines, exact(column(VALUE)), kind, layout).where(
            column("__kind").isin(*sorted(kinds))
        )
        data, image, meta = (column("__m")[p] for p in ("data", _BEFORE_IMAGE, "metadata"))
        values = {n: data[n] for n in names} | {
            prefix + n: F.coalesce(data[prefix + n] if prefix + n in names else F.lit(None), image[n])
            for n in images
        }
        operation = meta["operation"]
        known = [F.when(operation == word, F.lit(letter)) for word, letter in _OPS.items()]
        control = {layout.op: F.coalesce(*known, operation)}
        if layout.timestamp == COMMIT_TIME:
            control[COMMIT_TIME] = F.coalesce(meta["commit-timestamp"], meta["timestamp"])
        if layout.sequence and layout.sequence not in names:
            control[layout.sequence] = F.lit(None).cast("string")
        records = lines_of_kinds.select(
            *[plain(v).alias(n) for n, v in values.items() if n not in control],
            *[v.alias(n) for n, v in control.items()],
            *[column(c) for c in CARRIED_BY_LINES],
            *original(lines),
            (column("__kind") == "malformed").alias(MALFORMED_RECORD),
        )
        columns = dict(texts([*[n for n in names if n not in control], *control]))
        load: Load = "full_load" if "full_load" in kinds else "changes"
        return RecordGroup(records=records, load=load, columns=columns, files=[s.place for s in members])


def _envelope(data: T.DataType, image: T.DataType) -> T.StructType:
    return T.StructType(
        [T.StructField("data", data), T.StructField(_BEFORE_IMAGE, image), T.StructField("metadata", _META)]
    )


def _with_kinds(lines: DataFrame, text: Column, kind: T.StructType, layout: DmsLayout) -> DataFrame:
    """Add ``__m``, the parsed record, and ``__kind``: full_load, changes, skipped or malformed."""
    lines_of_kinds = computed_once(lines, {"__m": parsed(text, kind)})
    meta: Any = column("__m")["metadata"]
    other_table = F.lit(False)
    parts = list(reversed(layout.entity or ()))
    for name, part in zip(("table-name", "schema-name"), parts, strict=False):
        other_table |= ~meta[name].eqNullSafe(F.lit(part))
    kinds = (
        F.when(column(VALUE).isNull() | (meta["record-type"] == "control"), "skipped")
        .when(column("__m")["data"].isNull() | meta.isNull(), "malformed")
        .when(other_table, "skipped")
        .when(meta["operation"] == "load", "full_load")
        .otherwise("changes")
    )
    return computed_once(lines_of_kinds, {"__kind": kinds})
