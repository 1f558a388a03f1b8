"""Commit a change of a Hudi table: data, bookmark, properties and row count in one commit."""

from __future__ import annotations

import uuid
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import column
from kedro_lakehouse.errors import CommitConflictError, CommitUnknownError
from kedro_lakehouse.formats.hudi.timeline import TOKEN
from kedro_lakehouse.formats.hudi.turn import turn_to_commit
from kedro_lakehouse.formats.staged_files import GONE, MARK
from kedro_lakehouse.ops.report import BOOKMARK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from kedro_lakehouse.formats.hudi.table import HudiTable
    from kedro_lakehouse.formats.hudi.timeline import CompletedCommit
    from kedro_lakehouse.formats.hudi.turn import Turn
    from kedro_lakehouse.formats.staged_files import StagedChange
    from kedro_lakehouse.ops.report import CommitReport

_OPERATIONS: Final = {
    "append": "bulk_insert",
    "merge": "upsert",
    "replace": "insert_overwrite_table",
    "replace_where": "insert_overwrite_table",
}
RACED: Final = "HoodieWriteConflictException"
"""The name of a lost race in the text of Hudi's error."""
_DROPS_COLUMNS: Final = {
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
    "hoodie.write.set.null.for.missing.columns": "false",
}


class HudiCommit:
    """Publishes a change that was planned on one state of a table, if the table is still in that state."""

    def __init__(self, table: HudiTable, planned: str, leases: str) -> None:
        """Store the table, the state that the change was planned on, and where writers take their turns."""
        self._table, self._planned, self._leases = table, planned, leases

    def is_current(self) -> bool:
        """Whether the table is still in the state that the commit was planned on."""
        timeline = self._table.timeline()
        return timeline.exists() and timeline.state_version == self._planned

    def __call__(
        self,
        change: StagedChange | None,
        report: CommitReport,
        properties: Mapping[str, str],
        without: Sequence[str],
        rows: int,
    ) -> int | None:
        """Commit the change, after which the table has ``rows`` rows; return the instant of the commit.

        Raises:
            CommitConflictError: The table is no longer in the state that the commit was planned on.
            CommitUnknownError: The timeline cannot be read, and nothing else says what became of the commit.
        """
        with turn_to_commit(self._table, self._planned, self._leases) as turn:
            state = {"rows": rows, "properties": turn.timeline.state["properties"] | dict(properties)}
            return self._write(turn, change, report, state, without)

    def _write(
        self,
        turn: Turn,
        change: StagedChange | None,
        report: CommitReport,
        state: Mapping[str, Any],
        without: Sequence[str],
    ) -> int:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        schema = T.StructType([f for f in turn.timeline.schema().fields if f.name not in without])
        if change is None:
            rows, operation = self._table.none(schema), self._table.adding
        else:
            rows, operation = self._marked(change, schema), _OPERATIONS[change.kind]
        carried = {BOOKMARK: report.to_property(), TOKEN: uuid.uuid4().hex}
        failed: Exception | None = None
        turn.confirm()
        try:
            self._table.write(
                rows, operation, carried=carried, state=state, more=_DROPS_COLUMNS if without else {}
            )
        except (Py4JError, PySparkException) as error:
            failed = error
        # The error may have come after the commit, so the timeline is asked first.
        instant = self._published(carried[TOKEN], turn.timeline.newest, report.batch)
        if instant is not None:
            return int(instant)
        if failed is None:
            raise CommitUnknownError(table=self._table.name, batch=report.batch)
        if RACED in str(failed):
            raise CommitConflictError(table=self._table.name, attempts=1) from failed
        raise failed

    def _marked(self, change: StagedChange, schema: T.StructType) -> DataFrame:
        rows = change.rows
        if change.kind == "replace_where":  # Hudi replaces only whole tables
            stays = self._table.read().where(f"NOT coalesce(({change.condition}), false)")
            rows = stays.unionByName(rows, allowMissingColumns=True)
        deleted = column(MARK) == GONE if change.kind == "merge" else F.lit(False)
        return self._table.keyed(rows, schema, deleted)

    def _published(self, token: str, before: CompletedCommit | None, batch: int) -> str | None:
        """The instant of the commit with this token, if there is one after the planned state; else None.

        Raises:
            CommitUnknownError: The timeline cannot be read.
        """
        from py4j.protocol import Py4JError

        base = before.instant if before else None
        try:
            since = takewhile(lambda one: one.instant != base, self._table.timeline().commits())
            return next((one.instant for one in since if one.carried.get(TOKEN) == token), None)
        except Py4JError as error:
            raise CommitUnknownError(table=self._table.name, batch=batch) from error
