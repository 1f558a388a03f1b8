"""Apply pending events to a table without keys: append rows, or replace all by the newest extract's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kedro_lakehouse.changes.events import BATCH, OP, ORDER, UPSERT, column, columns, value_columns
from kedro_lakehouse.changes.plain import compare_extracts, newest_extract
from kedro_lakehouse.commits.blocking import validate_stage
from kedro_lakehouse.commits.cache import write_counted
from kedro_lakehouse.commits.excluded import pending_events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql import types as T

    from kedro_lakehouse.changes.plan import MergePlan
    from kedro_lakehouse.commits.token import BatchToken
    from kedro_lakehouse.formats.base import Stage, TableState
    from kedro_lakehouse.lake_table import LakeTable


class PlainFrames:
    """Pending events of a table without keys as Spark frames."""

    def __init__(self, table: LakeTable, plan: MergePlan, token: BatchToken) -> None:
        """Take the plan, some of whose events the table may have applied already."""
        self._table, self._contract = table, plan.contract
        self._pending = pending_events(table, plan, token)

    def columns(self, state: TableState | None) -> dict[str, T.DataType]:
        """The columns that the table must have."""
        return {f.name: f.dataType for f in self._rows(state).schema.fields}

    def write(self, stage: Stage, state: TableState) -> dict[str, int]:
        """Append the new rows to the stage; with ``write: replace``, they replace all rows of the table."""
        rows = self._rows(state)
        if self._contract.write == "replace":
            return self._replace(stage, rows, state)
        return self._write(stage, rows, state.rows, 0)

    def validate(self, stage: Stage, state: TableState) -> None:
        """Validate the staged rows against the blocking expectations."""
        validate_stage(self._table, "current", stage, self._events(state), before=state.rows)

    def _events(self, state: TableState | None) -> DataFrame:
        held = state.batch if state else 0
        return self._pending.where((column(BATCH) > held) & (column(OP) == UPSERT))

    def _rows(self, state: TableState | None) -> DataFrame:
        events = self._events(state)
        return events.select(*columns(value_columns(events)), column(ORDER))

    def _replace(self, stage: Stage, rows: DataFrame, state: TableState) -> dict[str, int]:
        """Replace all rows by the newest extract's; an extract older than the table's changes nothing."""
        # All rows of the table come from one extract, so one row shows which.
        one = self._table.read("current").limit(1)
        found = compare_extracts(rows, one).first()
        if found is None or found["same"] is None or found["late"]:
            return {"inserted": 0, "deleted": 0}
        return self._write(stage, newest_extract(rows), state.rows, 0 if found["same"] else state.rows)

    def _write(self, stage: Stage, rows: DataFrame, before: int, gone: int) -> dict[str, int]:
        written = write_counted(rows, stage.replace if gone else stage.append, self._table.config)
        stage.expect(before - gone + written)
        return {"inserted": written, "deleted": gone}
