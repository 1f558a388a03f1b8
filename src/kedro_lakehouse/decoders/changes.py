"""Rows of change-only files: each is an upsert, or what the operation in its column means."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import OP, ORDER, POSITION, UPSERT, column
from kedro_lakehouse.changes.validate import convert
from kedro_lakehouse.decoders.few_rows import events_of, has_pattern, rows_here
from kedro_lakehouse.decoders.plain_json import NotPlainError
from kedro_lakehouse.decoders.records import CARRIED, FILE, place_order

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame

    from kedro_lakehouse.decoders.lines import LineShape
    from kedro_lakehouse.decoders.records import Columns, RecordGroup


@dataclass(frozen=True, kw_only=True)
class ChangesLayout:
    """The column with the operation, if there is one, and what its values mean.

    ``upserts_only``: the table has no keys, so that there is nothing to delete by.
    """

    op: str | None = None
    mapping: Mapping[str, Literal["upsert", "delete", "truncate"]] = field(default_factory=dict)
    upserts_only: bool = False


class ChangesDecoder:
    """Decodes change-only rows, by default ordered by (file name, row number), and without own times."""

    def decode(
        self, group: RecordGroup, layout: ChangesLayout, columns: Columns, keys: tuple[str, ...]
    ) -> DataFrame:
        """Decode rows into events, as ``ChangeDecoder`` says."""
        del keys
        facts = group.records.withColumns({OP: _op(layout), ORDER: place_order()})
        kept = [OP, ORDER, *[c for c in CARRIED if c != FILE]]
        return convert(facts, columns.conversions(group.columns), keep=kept)

    def decode_few(
        self,
        lines: pa.Table,
        shapes: Sequence[LineShape],
        layout: ChangesLayout,
        columns: Columns,
        keys: tuple[str, ...],
    ) -> pa.Table:
        """Decode few rows without Spark, as ``DecodesFew`` says."""
        del keys
        found = {name: kind for shape in shapes for name, kind in shape.columns}
        wanted = columns.conversions(found)
        if any(shape.described for shape in shapes) or any(map(has_pattern, wanted)):
            raise NotPlainError
        kinds = {c.source: c.kind for c in wanted}
        if layout.op is not None and not isinstance(
            kinds.setdefault(layout.op, T.StringType()), T.StringType
        ):
            raise NotPlainError
        rows = rows_here(lines, kinds)
        events: dict[str, pa.Array] = {}
        for conversion in wanted:
            value = rows[conversion.source]
            before = events.get(conversion.name)
            events[conversion.name] = value if before is None else pc.coalesce(before, value)
        place = lines[POSITION].combine_chunks()
        events[ORDER] = pa.StructArray.from_arrays(place.flatten(), ["file_name", "row_number"])
        events[OP] = pa.array([UPSERT] * lines.num_rows, pa.string())
        if layout.op is not None:
            known = _known_operations(layout)
            events[OP] = pa.array([known.get(word) for word in rows[layout.op].to_pylist()], pa.string())
        return events_of(lines, events)


def _known_operations(layout: ChangesLayout) -> dict[str | None, str]:
    """What the values in the operation's column mean; a table without keys has no other than upserts."""
    return {v: op for v, op in layout.mapping.items() if op == UPSERT or not layout.upserts_only}


def _op(layout: ChangesLayout) -> Column:
    if layout.op is None:
        return F.lit(UPSERT)
    known = _known_operations(layout)
    op = F.lit(None).cast(T.StringType())
    for meaning in sorted(set(known.values())):
        values = [v for v, m in known.items() if m == meaning]
        op = F.when(column(layout.op).cast("string").isin(values), F.lit(meaning)).otherwise(op)
    return op
