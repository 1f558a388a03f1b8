"""Fold the whole change log into the rows of a target, with Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro_lakehouse.changes.events import BATCH, OP, ORDER, UPSERT, column, columns, value_columns
from kedro_lakehouse.changes.plain import newest_extract
from kedro_lakehouse.changes.plan import first_rows
from kedro_lakehouse.commits.audit import refuse_doubled_keys
from kedro_lakehouse.commits.blocking import validate_stage
from kedro_lakehouse.commits.cache import write_counted
from kedro_lakehouse.commits.excluded import accepted_events
from kedro_lakehouse.config.enrich import enriched_columns
from kedro_lakehouse.config.tables import takes_column
from kedro_lakehouse.ops.report import FOLDED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql import types as T

    from kedro_lakehouse.changes.plan import Kind
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.formats.base import Stage, TableState
    from kedro_lakehouse.lake_table import LakeTable


def declares(table: TableConfig, name: str) -> bool:
    """Whether a declaration includes a column, given by its name in the table."""
    return name in enriched_columns(table.enrich) or takes(table, name)


def takes(table: TableConfig, name: str) -> bool:
    """Whether a declaration takes a column from the source, given by its name in the table."""
    return name in table.keys or takes_column(table.columns, name)


class FoldFrames:
    """All rows of a target, folded from the accepted events up to a batch."""

    def __init__(self, table: LakeTable, kind: Kind, upto: int) -> None:
        """Build the frame of the folded rows."""
        self._table, self._kind, self._upto = table, kind, upto
        self._contract = table.contract
        self._events = accepted_events(table).where(column(BATCH) <= upto)
        gone = [c for c in value_columns(self._events) if not declares(table.config, c)]
        self._rows = self._folded(self._events.drop(*columns(gone)))

    def _folded(self, events: DataFrame) -> DataFrame:
        if self._contract.write == "merge":
            return first_rows(self._kind, events, self._contract, truncates=True)
        upserts = events.where(column(OP) == UPSERT)
        rows = newest_extract(upserts) if self._contract.write == "replace" else upserts
        return rows.select(*columns(value_columns(rows)), column(ORDER))

    def columns(self, _: TableState | None) -> dict[str, T.DataType]:
        """The columns that the target has after the fold."""
        return {f.name: f.dataType for f in self._rows.schema.fields}

    def write(self, stage: Stage, _: TableState) -> dict[str, int]:
        """Stage the folded rows in place of all rows of the target."""
        rows = write_counted(self._rows, stage.replace, self._table.config)
        stage.expect(rows)
        if self._contract.write == "merge":
            refuse_doubled_keys(stage, self._kind, self._contract.keys, batch=self._upto)
        return {FOLDED: rows}

    def validate(self, stage: Stage, state: TableState) -> None:
        """Validate the staged rows against the blocking expectations."""
        validate_stage(self._table, self._kind, stage, self._events, before=state.rows)
