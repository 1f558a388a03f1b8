"""The one commit of a change of a Hudi table: data, bookmark, properties and number of rows together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import column
from kedro_lakehouse.errors import CommitConflictError, CommitUnknownError
from kedro_lakehouse.formats.staged_files import GONE, MARK
from kedro_lakehouse.ops.lease import lease
from kedro_lakehouse.ops.report import BOOKMARK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import DataFrame

    from kedro_lakehouse.formats.base import TableState
    from kedro_lakehouse.formats.hudi_table import HudiTable
    from kedro_lakehouse.formats.staged_files import StagedChange
    from kedro_lakehouse.ops.report import CommitReport

_OPERATIONS: Final = {
    "append": "bulk_insert", "merge": "upsert",
    "replace": "insert_overwrite_table", "replace_where": "insert_overwrite_table",
}  # fmt: skip
RACED: Final = "HoodieWriteConflictException"
"""What Hudi calls the loss of a race, in the text of its error."""
_DROPS_COLUMNS: Final = {
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
    "hoodie.write.set.null.for.missing.columns": "false",
}


class HudiCommit:
    """Publishes what was planned on one state of a table, if the table is still in it."""

    def __init__(self, table: HudiTable, state: TableState | None, leases: str) -> None:
        """Keep the state that the change was planned on, and where writers take their turns."""
        self._table, self._state, self._leases = table, state, leases

    def __call__(
        self,
        change: StagedChange | None,
        report: CommitReport,
        properties: Mapping[str, str],
        without: Sequence[str],
        rows: int,
    ) -> int | None:
        """Commit, after which the table has so many rows; the instant of the commit.

        Raises:
            CommitConflictError: Another writer was faster; nothing was published.
            CommitUnknownError: Hudi failed, and its timeline cannot be read.
        """
        held = dict(self._state.properties) if self._state else {}
        state = {"rows": rows, "properties": held | dict(properties)}
        # Hudi looks for conflicts from the start of its own commit only: what came before is looked for here.
        with lease(self._leases, self._table.name, "publish"):
            before = self._table.timeline().newest
            base = self._state.snapshot_id if self._state else None
            if (int(before.instant) if before else None) != base:
                raise CommitConflictError(table=self._table.name, attempts=1)
            self._write(change, report, state, without)
        after = self._table.timeline().newest
        return int(after.instant) if after else None

    def _write(
        self,
        change: StagedChange | None,
        report: CommitReport,
        state: Mapping[str, Any],
        without: Sequence[str],
    ) -> None:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        schema = self._table.timeline().schema()
        schema = T.StructType([f for f in schema.fields if f.name not in without])
        if change is None:
            rows, operation = self._table.none(schema), self._table.adding
        else:
            rows, operation = self._marked(change, schema), _OPERATIONS[change.kind]
        carried = {BOOKMARK: report.to_property()}
        try:
            self._table.write(
                rows, operation, carried=carried, state=state, more=_DROPS_COLUMNS if without else {}
            )
        except (Py4JError, PySparkException) as error:
            if self._is_published(report):
                return  # what failed came after the commit
            if RACED in str(error):
                raise CommitConflictError(table=self._table.name, attempts=1) from error
            raise

    def _marked(self, change: StagedChange, schema: T.StructType) -> DataFrame:
        rows = change.rows
        if change.kind == "replace_where":  # Hudi replaces whole tables
            stays = self._table.read().where(f"NOT coalesce(({change.condition}), false)")
            rows = stays.unionByName(rows, allowMissingColumns=True)
        deleted = column(MARK) == GONE if change.kind == "merge" else F.lit(False)
        return self._table.keyed(rows, schema, deleted)

    def _is_published(self, report: CommitReport) -> bool:
        from py4j.protocol import Py4JError

        try:
            newest = self._table.timeline().newest
        except Py4JError as error:
            raise CommitUnknownError(table=self._table.name, batch=report.batch) from error
        return newest is not None and newest.carried.get(BOOKMARK) == report.to_property()
