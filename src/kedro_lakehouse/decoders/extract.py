"""Rows of full extracts: every record is a row as it was at the extract's time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import (
    OP,
    ORDER,
    POSITION,
    RAW,
    REASONS,
    UPSERT,
    cast_or_null,
    column,
    columns,
)
from kedro_lakehouse.changes.extract import (
    EXTRACT,
    UNTIL,
    VALID_FROM,
    keep_newest_rows,
    mark_duplicate_keys,
    starts_by_column,
)
from kedro_lakehouse.changes.validate import Conversion, check_events, convert
from kedro_lakehouse.decoders.records import CARRIED, FAILED, FILE, complete

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.contract import TableContract
    from kedro_lakehouse.changes.subjects import ErasedSubjects
    from kedro_lakehouse.decoders.records import Columns, RecordGroup


def decode_extracts(  # noqa: PLR0913 - what checks of rows depend on
    groups: Sequence[RecordGroup],
    extracts: DataFrame,
    layout: Columns,
    contract: TableContract,
    *,
    marked: bool = True,
    erased: ErasedSubjects | None = None,
) -> DataFrame:
    """Decode and check the rows of extracts.

    To find the keys that an extract has more than once, Spark sorts all rows. If they are not ``marked``, the
    caller counts them (``changes.guard_counts.count_doubled_keys``), and decodes again where there are some.

    Schema:
        extracts: ``__file``, ``_extract``, ``_order``: one row per extract.
        returns: the table's columns + ``_extract``, ``_position``, ``_reasons``, ``_raw`` (of
            quarantined rows) and, where the contract names a column for it, ``__valid_from``; of runs
            also ``__until``.
    """
    converted = [
        convert(g.records, [*layout.conversions(g.columns), *_unstored(g, layout, contract)], keep=CARRIED)
        for g in groups
    ]
    numbered = extracts.select(FILE, EXTRACT, ORDER)
    rows = complete(converted, layout).join(F.broadcast(numbered), FILE, "inner").drop(FILE)
    timed = _with_valid_from(rows, layout, contract)
    checked = check_events(timed.withColumn(OP, F.lit(UPSERT)), contract, erased=erased).drop(OP, ORDER)
    if contract.keys and contract.order_by:
        checked = keep_newest_rows(checked, contract)
    elif contract.keys and marked:
        checked = mark_duplicate_keys(checked, contract)
    if "until" in checked.schema[POSITION].dataType.fieldNames():  # type: ignore[attr-defined]
        checked = checked.withColumn(UNTIL, column(POSITION)["until"])
    kept = [c for c in checked.columns if c not in (RAW, REASONS, POSITION)]
    return checked.select(
        *columns(kept), POSITION, REASONS, F.when(F.size(REASONS) > 0, column(RAW)).alias(RAW)
    )


def _unstored(group: RecordGroup, layout: Columns, contract: TableContract) -> list[Conversion]:
    """The conversion of the column with a row's start, where the table does not store that column."""
    start_column = starts_by_column(contract)
    if start_column is None or start_column in layout.types:
        return []
    text = T.DateType() if layout.date_format and not layout.timestamp_format else T.TimestampType()
    return [
        Conversion(
            source=source,
            name=VALID_FROM,
            kind=text if isinstance(kind, T.StringType) else kind,
            same_type=not isinstance(kind, T.StringType),
            date_format=layout.date_format,
            timestamp_format=layout.timestamp_format,
        )
        for source, kind in group.columns.items()
        if layout.name_of(source) == start_column and source not in layout.control
    ]


def _with_valid_from(rows: DataFrame, layout: Columns, contract: TableContract) -> DataFrame:
    """Add a row's own start as a timestamp; a value that is not a timestamp counts as one of a wrong type."""
    start_column = starts_by_column(contract)
    if start_column is None:
        return rows
    name = start_column if start_column in layout.types else VALID_FROM
    if name not in rows.columns:
        return rows.withColumn(VALID_FROM, F.lit(None).cast("timestamp"))
    start = cast_or_null(name, "timestamp")
    failed = F.when(column(name).isNotNull() & start.isNull(), F.array(F.lit(start_column)))
    none = F.array().cast("array<string>")
    return rows.withColumn(
        FAILED, F.concat(F.coalesce(column(FAILED), none), F.coalesce(failed, none))
    ).withColumn(VALID_FROM, start)
