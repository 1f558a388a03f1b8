"""One commit of a table without keys: rows are added, or the newest extract's stand in place of all."""

from __future__ import annotations

import logging
import random
import time
from contextlib import ExitStack
from time import perf_counter
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.changes.events import BATCH, OP, ORDER, UPSERT, column, columns, value_columns
from kedro_lakehouse.changes.plain import compare_extracts, newest_extract
from kedro_lakehouse.datasets.blocking import judge_stage
from kedro_lakehouse.datasets.drift import made_for, refuse_drift
from kedro_lakehouse.datasets.observed import counted
from kedro_lakehouse.datasets.publish import acknowledge
from kedro_lakehouse.errors import AuditFailedError, CommitConflictError
from kedro_lakehouse.formats.base import Layout, enter_phase
from kedro_lakehouse.ops.report import CommitReport, now

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kedro_lakehouse.changes.contract import TableContract
    from kedro_lakehouse.config.tables import TableConfig
    from kedro_lakehouse.datasets.token import BatchToken
    from kedro_lakehouse.formats.base import Stage, TableState
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.project import Project

logger = logging.getLogger(__name__)

_ATTEMPTS: Final = 10


class PlainCommit:
    """Brings the pending batches of a table that has no keys to its current table."""

    def __init__(
        self, project: Project, name: TableName, table: TableConfig, contract: TableContract
    ) -> None:
        """Keep what the commit is about."""
        self._project, self._name, self._contract = project, name, contract
        self._format = project.format_of(name)
        self._layout = Layout(
            partition_by=table.partition_by,
            sort_by=table.sort_by,
            properties=made_for(contract) | dict(table.properties),
        )

    def run(self, pending: DataFrame, token: BatchToken) -> None:
        """Commit the pending batches; plan again on a conflict; do nothing if the table has them.

        Raises:
            CommitConflictError: Other writers won every race.
            AuditFailedError: What was staged is not what was planned; nothing was published.
            ExpectationFailedError: Staged rows fail an expectation that blocks; nothing was published.
        """
        with self._project.lease(self._name, "current"):
            for attempt in range(_ATTEMPTS):
                state = self._format.state(self._name)
                if token.batch == 0 or (state is not None and state.batch >= token.batch):
                    return
                try:
                    self._commit(pending, token, state)
                except CommitConflictError:
                    logger.warning("%s current: another writer was faster, planning again", self._name)
                    time.sleep(random.uniform(0, 0.1 * 2**attempt))  # noqa: S311 - jitter
                else:
                    return
        raise CommitConflictError(table=self._name, attempts=_ATTEMPTS)

    def _commit(self, pending: DataFrame, token: BatchToken, state: TableState | None) -> None:
        begun = perf_counter()
        held = state.batch if state else 0
        events = pending.where((column(BATCH) > held) & (column(OP) == UPSERT))
        rows = events.select(*columns(value_columns(events)), column(ORDER))
        state = self._ensure(state, rows)
        with self._format.stage(self._name, state) as stage:
            replaces = self._contract.write == "replace"
            counts = (
                self._replace(stage, rows, state) if replaces else self._write(stage, rows, state.rows, 0)
            )
            enter_phase("staged", self._name, "current", token.batch)
            judge_stage(self._project, self._name, "current", stage, events, before=state.rows)
            report = CommitReport(
                table=str(self._name), stage="current", batch=token.batch, batches=token.batch - held,
                content_hash=token.content_hash, run_id=self._project.run_id,
                correlation_id=self._project.correlation_id, committed_at=now(),
                counts=counts,
            )  # fmt: skip
            snapshot = stage.publish(report)
        enter_phase("published", self._name, "current", token.batch)
        acknowledge(self._project, report, snapshot, seconds=perf_counter() - begun)

    def _ensure(self, state: TableState | None, rows: DataFrame) -> TableState:
        wanted, lake = {f.name: f.dataType for f in rows.schema.fields}, self._format
        if state is None:
            lake.create(self._name, wanted, self._layout)
        else:
            refuse_drift(self._name, state, self._contract, wanted)
            lake.evolve(self._name, wanted, state)
        found = lake.state(self._name)
        if found is None:
            raise AuditFailedError(
                table=self._name, batch=0, check="the table is there", expected="a table", found="none"
            )
        return found

    def _replace(self, stage: Stage, rows: DataFrame, state: TableState) -> dict[str, int]:
        """Put the newest extract's rows in the place of all rows; an extract older than those is late."""
        # All rows of the table are of one extract: one of them tells which.
        one = self._format.read(self._name).limit(1)
        found = compare_extracts(rows, one).first()
        if found is None or found["same"] is None or found["late"]:
            return {"inserted": 0, "deleted": 0}
        return self._write(stage, newest_extract(rows), state.rows, 0 if found["same"] else state.rows)

    def _write(self, stage: Stage, rows: DataFrame, before: int, gone: int) -> dict[str, int]:
        with ExitStack() as kept:
            rows, count = counted(rows, kept, sorted_write=self._layout.sorts_writes)
            (stage.replace if gone else stage.append)(rows)
            written = count()
        stage.expect(before - gone + written)
        return {"inserted": written, "deleted": gone}
