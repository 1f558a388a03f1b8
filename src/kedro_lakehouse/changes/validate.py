"""Check events one by one: types, keys, orders, row checks. One invalid event never blocks another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from kedro_lakehouse.changes.events import (
    OP,
    ORDER,
    REASONS,
    TRUNCATE,
    UPSERT,
    column,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql import types as T

    from kedro_lakehouse.changes.contract import TableContract

MALFORMED: Final = "malformed"
UNKNOWN_OP: Final = "unknown_op"
NULL_KEY: Final = "null_key"
NULL_SEQUENCE: Final = "null_sequence"
INCOMPATIBLE_TYPE: Final = "incompatible_type"
DUPLICATE_KEY: Final = "duplicate_key"
KEY_MISMATCH: Final = "key_mismatch"
TOO_LATE: Final = "too_late"

REASON_ORDER: Final = (
    MALFORMED,
    UNKNOWN_OP,
    NULL_KEY,
    NULL_SEQUENCE,
    INCOMPATIBLE_TYPE,
    DUPLICATE_KEY,
    KEY_MISMATCH,
    TOO_LATE,
)
"""Quarantine reasons by precedence; failed row checks, by their names, come after them."""


@dataclass(frozen=True, kw_only=True)
class Conversion:
    """How one source column becomes a table column: its name there, here, and its type here.

    ``formats`` are the date and timestamp patterns of text sources.
    """

    source: str
    name: str
    kind: T.DataType
    same_type: bool
    date_format: str | None = None
    timestamp_format: str | None = None

    def value(self) -> Column:
        """The converted value; null where the source value cannot be read as the table's type."""
        raw = column(self.source)
        if self.same_type:
            return raw
        kind = self.kind.simpleString()
        if kind == "date" and self.date_format:
            return F.to_date(F.try_to_timestamp(raw, F.lit(self.date_format)))
        if kind.startswith("timestamp") and self.timestamp_format:
            return F.try_to_timestamp(raw, F.lit(self.timestamp_format)).cast(kind)
        return F.expr(f"try_cast(`{self.source.replace('`', '``')}` as {kind})")

    def failed(self) -> Column:
        """True where a source value is present but cannot be read as the table's type."""
        if self.same_type:
            return F.lit(False)
        return column(self.source).isNotNull() & self.value().isNull()


def convert(frame: DataFrame, conversions: Sequence[Conversion], *, keep: Sequence[str]) -> DataFrame:
    """Rename and cast source columns to the table's; several sources of one name: the first present.

    Adds ``__failed``: the names of columns whose value could not be cast.
    """
    by_name: dict[str, list[Conversion]] = {}
    for conversion in conversions:
        by_name.setdefault(conversion.name, []).append(conversion)
    values = [
        (F.coalesce(*[c.value() for c in group]) if len(group) > 1 else group[0].value()).alias(name)
        for name, group in by_name.items()
    ]
    checked = [c for c in conversions if not c.same_type]
    failed = (
        F.filter(
            F.array(*[F.when(c.failed(), F.lit(c.name)) for c in checked]), lambda name: name.isNotNull()
        )
        if checked
        else F.array().cast("array<string>")
    )
    return frame.select(*[column(k) for k in keep], *values, failed.alias("__failed"))


def reasons_of(conditions: Mapping[str, Column], checks: Mapping[str, str]) -> Column:
    """The reasons that hold for a row, the strongest first; an empty array where the row is valid.

    A row check that is null passes, as an SQL CHECK constraint does; it speaks of upserts only.
    """
    found = [F.when(conditions[r], F.lit(r)) for r in REASON_ORDER if r in conditions]
    upsert = F.coalesce(column(OP) == UPSERT, F.lit(False))
    failed_checks = [F.when(upsert & ~F.expr(f"({sql})"), F.lit(name)) for name, sql in checks.items()]
    return F.filter(F.array(*found, *failed_checks), lambda reason: reason.isNotNull())


def check_events(events: DataFrame, contract: TableContract) -> DataFrame:
    """Give every event the list of reasons (``_reasons``) why it cannot be applied: empty if it can.

    Schema:
        events: converted columns + ``_op``, ``_order``, ``__failed``, ``__malformed``.
        returns: the same without ``__failed`` and ``__malformed``, with ``_reasons``.
    """
    order_fields = events.schema[ORDER].dataType.fieldNames()  # type: ignore[attr-defined]
    null_key = F.lit(False)
    for key in contract.keys:
        null_key |= column(key).isNull()
    conditions = {
        MALFORMED: column("__malformed"),
        UNKNOWN_OP: column(OP).isNull(),
        NULL_KEY: null_key & ~column(OP).eqNullSafe(TRUNCATE),
        NULL_SEQUENCE: column(ORDER)[order_fields[0]].isNull(),
        INCOMPATIBLE_TYPE: F.size("__failed") > 0,
    }
    reasons = reasons_of(conditions, contract.checks or {})
    return events.withColumn(REASONS, reasons).drop("__failed", "__malformed")
