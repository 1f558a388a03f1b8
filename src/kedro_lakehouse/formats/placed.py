"""Where rows are in a data file that was read without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def positions_of(rows: pa.Table, among: Mapping[str, Sequence[Any]], *, without: pa.Array) -> pa.Array:
    """The positions of the rows whose columns have one of the given values each.

    Args:
        rows: All rows of a file, in their order.
        among: For some columns, the wanted values.
        without: The positions of the rows that are deleted.
    """
    mask = pa.repeat(pa.scalar(value=True), rows.num_rows)
    for name, values in among.items():
        column = rows[name].combine_chunks()
        mask = pc.and_(mask, pc.is_in(column, _of_type(values, column.type)))
    at = pc.indices_nonzero(mask).cast(pa.int64())
    return at.filter(pc.invert(pc.is_in(at, without))) if len(without) else at


def _of_type(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Values as an array of a column's type: integers that it cannot hold are none of the column's."""
    if pa.types.is_integer(kind):
        most = 2 ** (kind.bit_width - 1)
        values = [v for v in values if v is None or -most <= v < most]
    return pa.array(values, kind)
