"""Audit a staged commit before it is published, beyond its row count."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from kedro_lakehouse.changes.events import column, columns
from kedro_lakehouse.changes.history import ORDER_TO
from kedro_lakehouse.errors import AuditFailedError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from kedro_lakehouse.changes.plan import Kind
    from kedro_lakehouse.formats.base import Stage
    from kedro_lakehouse.names import TableName


def refuse_doubled_keys(stage: Stage, kind: Kind, keys: Sequence[str], *, batch: int = 0) -> None:
    """Refuse a stage that wrote two rows with the same key; few rows are read without Spark.

    In a history only rows that have not ended count (``_order_to`` is null).

    Raises:
        AuditFailedError: Two of the written rows have the same key.
    """
    if doubles_a_key(stage, keys, _ended(kind)):
        raise _doubled_key(stage.table, batch)


def refuse_doubled_rows(
    table: TableName, rows: pa.Table, kind: Kind, keys: Sequence[str], *, batch: int
) -> None:
    """Refuse rows to be written of which two have the same key, none of them nested, as above.

    Raises:
        AuditFailedError: Two of the rows have the same key.
    """
    if _doubled(rows, keys, _ended(kind)):
        raise _doubled_key(table, batch)


def _ended(kind: Kind) -> str | None:
    return None if kind == "current" else ORDER_TO


def _doubled_key(table: TableName, batch: int) -> AuditFailedError:
    return AuditFailedError(
        table=table, batch=batch, check="one row a key", expected="unique keys", found="a doubled key"
    )


def doubles_a_key(stage: Stage, keys: Sequence[str], ended: str | None = None) -> bool:
    """Whether two of the rows that a stage wrote have the same key; rows count whose ``ended`` is null."""
    written = stage.written([*keys, *([ended] if ended else [])])
    if written is not None and not any(pa.types.is_nested(written.schema.field(k).type) for k in keys):
        return _doubled(written, keys, ended)
    rows = stage.appended()
    lasting = rows.where(column(ended).isNull()) if ended else rows
    return not lasting.groupBy(*columns(keys)).count().where("count > 1").isEmpty()


def _doubled(rows: pa.Table, keys: Sequence[str], ended: str | None) -> bool:
    lasting = rows.filter(pc.is_null(rows[ended])) if ended else rows
    unique = lasting.select(list(keys)).group_by(list(keys)).aggregate([]).num_rows
    return bool(unique != lasting.num_rows)
