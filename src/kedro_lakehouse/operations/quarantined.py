"""Find the raw records of quarantined rows again in the files that they came from."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import BATCH, POSITION, RAW, column

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from kedro_lakehouse.decoders.records import RecordGroup

HELD_BATCH: Final = "__held_batch"
HELD_AT: Final = "__held_at"
_MARK, _VALUES = "__mark", "__values"


def match_records(groups: Sequence[RecordGroup], held: DataFrame, *, numbered: bool = False) -> DataFrame:
    """Match quarantined rows with raw records that were read again: by content, or by row number and content.

    With ``numbered`` by row number alone: an offset means the same record for ever, whatever it is read as.

    Other csv options may number the lines differently, so a row number alone proves nothing. A row matches a
    record if their letters and digits are the same; or if the row number is the same, and so are all values
    that neither reading takes for null. A row without a match stays in quarantine.

    Schema:
        returns: ``_position`` of the record, ``__held_batch`` and ``__held_at`` of the quarantined row.
    """
    facts = [column(POSITION), _mark().alias(_MARK), _values().alias(_VALUES)]
    records = reduce(lambda a, b: a.unionByName(b), [g.records.select(*facts) for g in groups])
    rows = held.select(
        column(BATCH).alias(HELD_BATCH),
        column(POSITION).alias(HELD_AT),
        _mark().alias("__held_mark"),
        _values().alias("__held_values"),
    )
    file = column(POSITION)["file"] == column(HELD_AT)["file"]
    row = column(POSITION)["row"] == column(HELD_AT)["row"]
    agree = F.forall(F.map_entries(column("__held_values")), _agrees)
    alike = records.join(rows, file & (column(_MARK) == column("__held_mark")))
    if numbered:
        return records.join(rows, file & row).select(POSITION, HELD_BATCH, HELD_AT)
    there = records.join(rows, file & row).where(F.coalesce(agree, F.lit(False)))
    names = (POSITION, HELD_BATCH, HELD_AT)
    found = alike.select(*names).unionByName(there.select(*names)).distinct()
    # If several records match a quarantined row, the one at the same row number is preferred.
    one = Window.partitionBy(HELD_BATCH, HELD_AT)
    here = F.coalesce(row, F.lit(False))
    best = found.withColumn("__here", here).withColumn("__best", F.max("__here").over(one))
    return best.where(column("__here") == column("__best")).select(*names)


def _values() -> Column:
    """The values, by name, of a raw record that was stored as JSON; null for one stored as a line."""
    return F.from_json(column(RAW), "map<string,string>")


def _agrees(entry: Column) -> Column:
    now = F.try_element_at(column(_VALUES), entry["key"])
    return entry["value"].isNull() | now.isNull() | (entry["value"] == now)


def _mark() -> Column:
    """The letters and digits of a raw record, whether it was stored as a line or as JSON."""
    values = F.filter(F.map_values(_values()), lambda v: v.isNotNull())
    text = F.coalesce(F.array_join(values, ""), column(RAW))
    return F.regexp_replace(text, "[^A-Za-z0-9]", "")


def records_at(records: DataFrame, found: DataFrame) -> DataFrame:
    """The records that match quarantined rows."""
    wanted = found.select(column(POSITION).alias("__wanted")).distinct()
    return records.join(wanted, column(POSITION) == column("__wanted"), "left_semi")


def released(found: DataFrame, verdict: DataFrame) -> DataFrame:
    """The quarantined rows whose matching records are all valid now.

    Schema:
        found: see ``match_records``.
        verdict: ``_position``, ``ok``.
        returns: ``_batch``, ``_position`` as they are in quarantine.
    """
    checked = found.join(verdict, POSITION, "left")
    of_row = checked.groupBy(column(HELD_BATCH).alias(BATCH), column(HELD_AT).alias("__at")).agg(
        F.min(F.coalesce(column("ok"), F.lit(False))).alias("ok")
    )
    return of_row.where("ok").select(BATCH, column("__at").alias(POSITION))
