"""The order of Debezium's events, by connector: the position of a change in its database's log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.names import quote

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column

    from kedro_lakehouse.decoders.records import Columns

_LONG: Final = T.LongType()
_TEXT: Final = T.StringType()
Position = tuple[tuple[str, T.DataType, str], ...]

_MYSQL: Final[Position] = (
    # mysql-bin.000003: its number, because the count may outgrow the digits that it began with.
    ("file", _LONG, "try_cast(regexp_extract({0}, '([0-9]+)$', 1) as bigint)"),
    ("pos", _LONG, "try_cast({0} as bigint)"),
    ("row", _LONG, "try_cast({0} as bigint)"),
)
POSITIONS: Final[Mapping[str, Position]] = {
    "postgresql": (("lsn", _LONG, "try_cast({0} as bigint)"),),
    "mysql": _MYSQL,
    "mariadb": _MYSQL,
    # Text of a fixed width: 00000027:00000ac0:0002. Transactions arrive in the order of their commits.
    "sqlserver": (
        ("commit_lsn", _TEXT, "{0}"),
        ("change_lsn", _TEXT, "{0}"),
        ("event_serial_no", _LONG, "try_cast({0} as bigint)"),
    ),
    "oracle": (
        ("scn", T.DecimalType(38, 0), "try_cast({0} as decimal(38,0))"),
        ("rs_id", _TEXT, "trim({0})"),
        ("ssn", _LONG, "try_cast({0} as bigint)"),
    ),
}
"""What orders the events of a connector, the leading element first: name, type, how its text is read."""

POSITION_FIELDS: Final = tuple(dict.fromkeys(name for p in POSITIONS.values() for name, _, _ in p))
TIME_FIELDS: Final = ("ts_us", "ts_ns", "ts_ms")
_MICROS: Final = {
    "ts_us": "try_cast({0} as bigint)",
    "ts_ns": "try_cast({0} as bigint) div 1000",
    "ts_ms": "try_multiply(try_cast({0} as bigint), 1000L)",
}


def connector_of(columns: Columns) -> str | None:
    """The connector whose order the table's ``_order`` has already; None where there is none."""
    have = columns.order.fieldNames() if columns.order is not None else []
    return next((c for c, p in POSITIONS.items() if [name for name, _, _ in p] == have), None)


def order_of(connector: str, at: str) -> Column:
    """The order of an event from the texts of its source block, a struct column."""
    fields = [
        F.expr(how.format(f"{quote(at)}.{quote(name)}")).cast(kind).alias(name)
        for name, kind, how in POSITIONS[connector]
    ]
    return F.struct(*fields)


def time_of(texts: Sequence[str]) -> Column:
    """The first time that is given in struct columns of ``ts_us``, ``ts_ns`` and ``ts_ms``, in this order."""
    times = [
        f"nullif({_MICROS[f].format(f'{quote(at)}.{quote(f)}')}, 0)" for at in texts for f in TIME_FIELDS
    ]
    return F.expr(f"timestamp_micros(coalesce({', '.join(times)}))")
