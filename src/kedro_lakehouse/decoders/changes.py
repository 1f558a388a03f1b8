"""Rows of change-only files: each is an upsert, or what the operation in its column means."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import OP, ORDER, UPSERT, column
from kedro_lakehouse.changes.validate import convert
from kedro_lakehouse.decoders.records import CARRIED, FILE, place_order

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column, DataFrame

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


def _op(layout: ChangesLayout) -> Column:
    if layout.op is None:
        return F.lit(UPSERT)
    known = {v: op for v, op in layout.mapping.items() if op == UPSERT or not layout.upserts_only}
    op = F.lit(None).cast(T.StringType())
    for meaning in sorted(set(known.values())):
        values = [v for v, m in known.items() if m == meaning]
        op = F.when(column(layout.op).cast("string").isin(values), F.lit(meaning)).otherwise(op)
    return op
