"""Commit a change of a Hudi table: data, bookmark, properties and row count in one commit.

One writer at a time may do so: what it compares stays true until it has written.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F
from pyspark.sql import types as T

from kedro_lakehouse.changes.events import column
from kedro_lakehouse.errors import ClockBehindError, CommitConflictError, CommitUnknownError
from kedro_lakehouse.formats.hudi.timeline import TOKEN, time_of
from kedro_lakehouse.formats.staged_files import GONE, MARK
from kedro_lakehouse.formats.turn import publish_turn
from kedro_lakehouse.ops.report import BOOKMARK
from kedro_lakehouse.session.jvm import java_class

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame

    from kedro_lakehouse.formats.hudi.table import HudiTable
    from kedro_lakehouse.formats.hudi.timeline import CompletedCommit, HudiTimeline
    from kedro_lakehouse.formats.staged_files import StagedChange
    from kedro_lakehouse.formats.turn import Confirm
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.ops.report import CommitReport

_OPERATIONS: Final = {
    "append": "bulk_insert",
    "merge": "upsert",
}
_REPLACES: Final = "insert_overwrite_table"
RACED: Final = "HoodieWriteConflictException"
"""The name of a lost race in the text of Hudi's error."""
_PATIENCE: Final = timedelta(seconds=5)
"""The most by which the clocks of two machines differ, if the network sets them."""
_SECONDS: Final = "%Y-%m-%d %H:%M:%S"
_DROPS_COLUMNS: Final = {
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
    "hoodie.write.set.null.for.missing.columns": "false",
}


@dataclass(frozen=True)
class Turn:
    """A writer's turn at a table that is in the state the writer planned on."""

    timeline: HudiTimeline
    table: TableName
    still_ours: Confirm

    def confirm(self) -> None:
        """Return if the turn is still ours; to be called immediately before the write.

        Raises:
            ClockBehindError: Hudi would name our commit by an earlier time than the newest commit has.
            CommitConflictError: Another run has taken the turn over.
        """
        # Times order commits: wait, a few seconds at most, until the clock has passed the newest one.
        latest, now = self.timeline.latest, datetime.now(UTC)
        newest = time_of(latest) if latest else now
        if newest - now > _PATIENCE:
            raise ClockBehindError(table=self.table, newest=f"{newest:{_SECONDS}}", now=f"{now:{_SECONDS}}")
        time.sleep(max((newest - now).total_seconds(), 0))
        self.still_ours()


@contextlib.contextmanager
def turn_to_commit(table: HudiTable, planned: str, leases: str) -> Iterator[Turn]:
    """Let the block commit to a table that is in the planned state, while no other writer can.

    Hudi looks for conflicts only from the start of its own commit on. Conflicts before that are found here.

    Raises:
        CommitConflictError: The table is in another state, or no longer exists.
    """
    with one_writer(table, leases) as still_ours:
        timeline = table.timeline()
        if not timeline.exists() or timeline.state_version != planned:
            raise CommitConflictError(table=table.name, attempts=1)
        yield Turn(timeline, table.name, still_ours)


@contextlib.contextmanager
def one_writer(table: HudiTable, leases: str) -> Iterator[Confirm]:
    """Let one writer at a time work on a table: see decision record 0074."""
    with publish_turn(leases, table.name) as still_ours, _lock_of_the_jvm(table, leases):
        yield still_ours


@contextlib.contextmanager
def _lock_of_the_jvm(table: HudiTable, leases: str) -> Iterator[None]:
    """The JVM's own lock on a local file, in addition to the lease that this process holds.

    The JVM is what writes, and it may live on for a moment after this process is killed and its lease
    released.
    """
    if "://" in leases:
        yield
        return
    path = Path(leases) / f"{table.name}.writer.lock"
    file = java_class(table.session, "java.io.RandomAccessFile")(str(path), "rw")
    try:
        file.getChannel().lock()  # waits; the lease keeps the threads of one JVM apart
        yield
    finally:
        file.close()


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
            rows, operation = self._to_write(change, schema)
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

    def _to_write(self, change: StagedChange, schema: T.StructType) -> tuple[DataFrame, str]:
        """The rows to write, and Hudi's operation.

        Hudi finds the rows that a merge changes by their record keys. In a table without identity (a change
        log, a quarantine) each row has a key that Hudi made, so there the whole table is written again.
        """
        by_key = change.kind == "merge" and self._table.identity()
        if not by_key and change.kind != "append":
            whole = change.applied_to(self._table.read())
            return self._table.keyed(whole, schema, F.lit(False)), _REPLACES
        deleted = column(MARK) == GONE if by_key else F.lit(False)
        return self._table.keyed(change.rows, schema, deleted), _OPERATIONS[change.kind]

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
