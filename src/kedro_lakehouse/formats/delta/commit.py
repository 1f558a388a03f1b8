"""One commit of a Delta table: the staged change, the number of our commit and its note, or nothing."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from kedro_lakehouse.errors import (
    AuditFailedError,
    BookmarkGoneError,
    CommitConflictError,
    CommitUnknownError,
)
from kedro_lakehouse.formats.delta.api import cloned_session, delta_tables
from kedro_lakehouse.formats.delta.entries import WrittenFiles, commit_info, write_entry
from kedro_lakehouse.formats.delta.log import APP_ID, Note
from kedro_lakehouse.formats.literals import constant
from kedro_lakehouse.formats.staged_files import ADDED, CHANGED, GONE, MARK
from kedro_lakehouse.formats.turn import no_turn
from kedro_lakehouse.names import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from delta.tables import DeltaTable
    from pyspark.sql import Column, DataFrame, SparkSession

    from kedro_lakehouse.errors import LakehouseError
    from kedro_lakehouse.formats.delta.log import DeltaLog
    from kedro_lakehouse.formats.staged_files import StagedChange
    from kedro_lakehouse.formats.turn import TakeTurn
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.ops.report import CommitReport

_RACED: Final = (
    "DELTA_CONCURRENT",
    "DELTA_METADATA_CHANGED",
    "DELTA_PROTOCOL_CHANGED",
    "io.delta.exceptions.",
)
_NOT_AS_PLANNED: Final = "kedro_lakehouse: the table is not as the merge presumes"


@dataclass(frozen=True, kw_only=True)
class DeltaCommit:
    """Commits to one table, if it is still in the state ``planned`` (its ``DeltaLog.state_version``).

    Each of our commits has a transaction number of ``APP_ID`` in Delta's log: that of the state it was
    planned on, plus one. Delta skips or refuses a transaction whose number the table already has. So of
    two writers that planned on one state only one wins, no matter when each of them checks the state.
    """

    session: SparkSession
    table: TableName
    path: str
    planned: str
    log: Callable[[], DeltaLog | None]
    turn: TakeTurn = no_turn

    def is_current(self) -> bool:
        """Whether the table is still in the state that the commit was planned on."""
        log = self.log()
        return log is not None and log.state_version == self.planned

    def __call__(
        self,
        change: StagedChange | WrittenFiles | None,
        report: CommitReport,
        properties: Mapping[str, str],
        without: Sequence[str],
        rows: int,
    ) -> int | None:
        """Publish the change and the bookmark in one entry of the log; return the new version.

        Raises:
            CommitConflictError: The table is no longer in the state that the commit was planned on.
            CommitUnknownError: The log cannot be read, and nothing else says what became of the commit.
            AuditFailedError: The table does not have the rows that a merge presumes.
        """
        with self.turn(self.table) as confirm:
            log = self.log()
            if log is None or log.state_version != self.planned:
                raise CommitConflictError(table=self.table, attempts=1)
            before = log.head.note
            note = Note(
                number=before.number + 1 if before else 1,
                token=uuid.uuid4().hex,
                rows=rows,
                bookmark=report.to_property(),
                properties=(dict(before.properties) if before else {}) | dict(properties),
            )
            confirm()
            return self._commit(log, note, change, report.batch, without)

    def _commit(
        self,
        log: DeltaLog,
        note: Note,
        change: StagedChange | WrittenFiles | None,
        batch: int,
        without: Sequence[str],
    ) -> int:
        try:
            if isinstance(change, WrittenFiles):
                self._append(log, note, change, without)
            else:
                self._drop_columns(log, without)
                self._write(self._own_session(note), change)
        except Exception as error:
            # The error may have come after the commit, so the log is asked first.
            version = self._published(note, batch, error)
            if version is not None:
                return version
            if (meant := self._translated(error)) is None:
                raise
            raise meant from error
        version = self._published(note, batch, None)
        if version is None:  # Delta skipped the transaction: its number is taken
            raise CommitConflictError(table=self.table, attempts=1)
        return version

    def _append(self, log: DeltaLog, note: Note, files: WrittenFiles, without: Sequence[str]) -> None:
        """Append the next entry to the log; of several writers only one can.

        Its version is compared, and not only its state: a compaction may have removed the very files whose
        rows are deleted.
        """
        planned_on = files.planned_on
        if self._drop_columns(log, without):
            log, planned_on = cast("DeltaLog", self.log()), planned_on + 1
        info = commit_info("WRITE", planned_on, note.to_text(), log.newest_time)
        number = {"txn": {"appId": APP_ID, "version": note.number, "lastUpdated": info["timestamp"]}}
        entry = [{"commitInfo": info}, number, *files.actions]
        if log.version != planned_on or not write_entry(Path(self.path), planned_on + 1, entry):
            raise CommitConflictError(table=self.table, attempts=1)
        if log.is_due_for_checkpoint(planned_on + 1) and (newest := self.log()) is not None:
            newest.checkpoint()

    def _drop_columns(self, log: DeltaLog, names: Sequence[str]) -> bool:
        """Drop columns in an earlier entry of the log: Delta cannot drop them in the commit itself.

        Returns:
            Whether the table had some of them.
        """
        held = {f["name"] for f in log.schema}
        gone = [quote(name) for name in names if name in held]
        if gone:
            self.session.sql(f"ALTER TABLE delta.{quote(self.path)} DROP COLUMNS ({', '.join(gone)})")
        return bool(gone)

    def _own_session(self, note: Note) -> SparkSession:
        """A session for this commit alone, with number and note in its settings."""
        return cloned_session(
            self.session,
            {
                "spark.databricks.delta.write.txnAppId": APP_ID,
                "spark.databricks.delta.write.txnVersion": str(note.number),
                "spark.databricks.delta.commitInfo.userMetadata": note.to_text(),
                # The new rows need not meet the condition that selects the rows to delete.
                "spark.databricks.delta.replaceWhere.constraintCheck.enabled": "false",
            },
        )

    def _write(self, session: SparkSession, change: StagedChange | None) -> None:
        if change is None:
            target = session.read.format("delta").load(self.path)
            session.createDataFrame([], target.schema).write.format("delta").mode("append").save(self.path)
            return
        rows = session.read.schema(change.rows.schema).parquet(change.files)
        if change.kind == "merge":
            merge(delta_tables(session).forPath(session, self.path), rows, change)
            return
        writer = rows.write.format("delta").mode("append" if change.kind == "append" else "overwrite")
        if change.kind != "append":
            # Also if all rows are replaced: an overwrite without a condition would remove the clustering.
            writer = writer.option("replaceWhere", change.condition or "true")
        writer.save(self.path)

    def _published(self, note: Note, batch: int, error: Exception | None) -> int | None:
        """The version of this commit in the log; None if it is not there.

        Raises:
            CommitUnknownError: The log cannot be read.
        """
        from deltalake.exceptions import DeltaError

        try:
            log = self.log()
            return log.version_of(note) if log else None
        except (DeltaError, BookmarkGoneError, OSError) as unreadable:
            raise CommitUnknownError(table=self.table, batch=batch) from (error or unreadable)

    def _translated(self, error: Exception) -> LakehouseError | None:
        text = f"{type(error).__name__} {error}"
        java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
        text += str(java or "")
        if _NOT_AS_PLANNED in text:
            return AuditFailedError(
                table=self.table,
                batch=0,
                check="rows that are merged",
                expected="the table as it was planned on",
                found="other rows",
            )
        if any(sign in text for sign in _RACED):
            return CommitConflictError(table=self.table, attempts=1)
        return None


def merge(target: DeltaTable, rows: DataFrame, change: StagedChange) -> None:
    """Merge the staged rows; fails, uncommitted, if a row of the table exists or is missing against plan."""
    same = [f"t.{quote(c)} = s.{quote(c)}" for c in change.on]
    near = [
        f"t.{quote(c)} BETWEEN {constant(low)} AND {constant(high)}" for c, (low, high) in change.near.items()
    ]
    # Columns by name, because Delta's star cannot take names with backticks.
    values: dict[str, str | Column] = {quote(c): f"s.{quote(c)}" for c in rows.columns if c != MARK}
    # Only a row that contradicts the plan reaches the two clauses without a mark: they end the merge.
    wrong: dict[str, str | Column] = {quote(change.on[0]): f"raise_error('{_NOT_AS_PLANNED}')"}
    mark = f"s.{quote(MARK)}"
    (
        target.alias("t")
        .merge(rows.alias("s"), " AND ".join([*same, *near]))
        .whenMatchedDelete(f"{mark} = '{GONE}'")
        .whenMatchedUpdate(f"{mark} = '{CHANGED}'", values)
        .whenMatchedUpdate(set=wrong)
        .whenNotMatchedInsert(f"{mark} = '{ADDED}'", values)
        .whenNotMatchedInsert(values=wrong)
        .execute()
    )
