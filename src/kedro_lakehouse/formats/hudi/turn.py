"""Let one writer at a time commit to a Hudi table: what it compares stays true until it has written."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Final

from kedro_lakehouse.errors import ClockBehindError, CommitConflictError
from kedro_lakehouse.formats.hudi.timeline import time_of
from kedro_lakehouse.formats.turn import publish_turn
from kedro_lakehouse.session.jvm import java_class

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from kedro_lakehouse.formats.hudi.table import HudiTable
    from kedro_lakehouse.formats.hudi.timeline import HudiTimeline
    from kedro_lakehouse.formats.turn import Confirm
    from kedro_lakehouse.names import TableName

_PATIENCE: Final = timedelta(seconds=5)
"""The most by which the clocks of two machines differ, if the network sets them."""
_SECONDS: Final = "%Y-%m-%d %H:%M:%S"


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
        self._wait_for_the_clock()
        self.still_ours()

    def _wait_for_the_clock(self) -> None:
        """Wait, a few seconds at most, until the clock has passed the newest commit: times order commits."""
        latest, now = self.timeline.latest, datetime.now(UTC)
        newest = time_of(latest) if latest else now
        if newest - now > _PATIENCE:
            raise ClockBehindError(table=self.table, newest=f"{newest:{_SECONDS}}", now=f"{now:{_SECONDS}}")
        time.sleep(max((newest - now).total_seconds(), 0))


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


def _lock_of_the_jvm(table: HudiTable, leases: str) -> AbstractContextManager[None]:
    """The JVM's own lock on a local file, in addition to the lease that this process holds.

    The JVM is what writes, and it may live on for a moment after this process is killed and its lease
    released.
    """
    if "://" in leases:
        return contextlib.nullcontext()
    return _locked(table.session, Path(leases) / f"{table.name}.writer.lock")


@contextlib.contextmanager
def _locked(session: SparkSession, path: Path) -> Iterator[None]:
    file = java_class(session, "java.io.RandomAccessFile")(str(path), "rw")
    try:
        file.getChannel().lock()  # waits; the lease keeps the threads of one JVM apart
        yield
    finally:
        file.close()
