"""What is looked at before a commit is published, beside the number of its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro_lakehouse.changes.events import column, columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from kedro_lakehouse.formats.base import Stage


def doubles_a_key(stage: Stage, keys: Sequence[str], ended: str | None) -> bool:
    """Whether two of the rows that a stage has written are of one key; few rows are read without Spark.

    Args:
        stage: A stage to which rows were written.
        keys: The columns of the key.
        ended: The column that is null in a row that lasts: only those count; None: every row does.
    """
    import pyarrow as pa

    written = stage.written([*keys, *([ended] if ended else [])])
    if written is not None and not any(pa.types.is_nested(written.schema.field(k).type) for k in keys):
        return _doubled(written, keys, ended)
    rows = stage.appended()
    lasting = rows.where(column(ended).isNull()) if ended else rows
    return not lasting.groupBy(*columns(keys)).count().where("count > 1").isEmpty()


def _doubled(rows: pa.Table, keys: Sequence[str], ended: str | None) -> bool:
    import pyarrow.compute as pc

    lasting = rows.filter(pc.is_null(rows[ended])) if ended else rows
    unique = lasting.select(list(keys)).group_by(list(keys)).aggregate([]).num_rows
    return bool(unique != lasting.num_rows)
