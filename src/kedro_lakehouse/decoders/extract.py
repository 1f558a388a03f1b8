"""Rows of full extracts: every record is a row as it was at the extract's time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import OP, ORDER, POSITION, RAW, REASONS, UPSERT, column, columns
from kedro_lakehouse.changes.extract import EXTRACT, mark_duplicate_keys
from kedro_lakehouse.changes.validate import check_events, convert
from kedro_lakehouse.decoders.records import CARRIED, FILE, complete

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.contract import TableContract
    from kedro_lakehouse.decoders.records import Columns, RecordGroup


def decode_extracts(
    groups: Sequence[RecordGroup],
    extracts: DataFrame,
    layout: Columns,
    contract: TableContract,
) -> DataFrame:
    """Decode and check the rows of extracts.

    Schema:
        extracts: ``__file``, ``_extract``, ``_order``, ``_time``: one row an extract.
        returns: the table's columns + ``_extract``, ``_position``, ``_reasons`` and
            ``_raw`` (of quarantined rows).
    """
    converted = [convert(g.records, layout.conversions(g.columns), keep=CARRIED) for g in groups]
    rows = (
        complete(converted, layout)
        .join(F.broadcast(extracts.select(FILE, EXTRACT, ORDER)), FILE, "inner")
        .drop(FILE)
    )
    checked = check_events(rows.withColumn(OP, F.lit(UPSERT)), contract).drop(OP, ORDER)
    marked = mark_duplicate_keys(checked, contract)
    kept = [c for c in marked.columns if c not in (RAW, REASONS, POSITION)]
    return marked.select(
        *columns(kept), POSITION, REASONS, F.when(F.size(REASONS) > 0, column(RAW)).alias(RAW)
    )
