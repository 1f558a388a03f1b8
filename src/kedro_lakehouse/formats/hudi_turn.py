"""One writer's turn at a Hudi table: what it compares stays true until it has written."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from kedro_lakehouse.errors import CommitConflictError, LeaseLostError
from kedro_lakehouse.ops.lease import lease
from kedro_lakehouse.session.jvm import java_class

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from pyspark.sql import SparkSession

    from kedro_lakehouse.formats.hudi_table import HudiTable
    from kedro_lakehouse.formats.hudi_timeline import HudiTimeline
    from kedro_lakehouse.names import TableName
    from kedro_lakehouse.ops.lease import Lease


@dataclass(frozen=True)
class Turn:
    """The turn of a writer at a table that is in the state it planned on."""

    timeline: HudiTimeline
    table: TableName
    lease: Lease

    def confirm(self) -> None:
        """Return if the turn is still ours; to be asked immediately before the write.

        Raises:
            CommitConflictError: Another run has taken it over.
        """
        try:
            self.lease.confirm()
        except LeaseLostError as error:
            raise CommitConflictError(table=self.table, attempts=1) from error


@contextlib.contextmanager
def turn_to_commit(table: HudiTable, planned: str, leases: str) -> Iterator[Turn]:
    """Let the block commit to a table that is in the planned state, and nobody else meanwhile.

    Hudi looks for conflicts from the start of its own commit only: what came before is looked for here.

    Raises:
        CommitConflictError: The table is in another state, or gone.
    """
    with one_writer(table, leases) as held:
        timeline = table.timeline()
        if not timeline.exists() or timeline.state_version != planned:
            raise CommitConflictError(table=table.name, attempts=1)
        yield Turn(timeline, table.name, held)


@contextlib.contextmanager
def one_writer(table: HudiTable, leases: str) -> Iterator[Lease]:
    """Let one writer at a time work on a table.

    On a local file system the lock cannot be lost while the writer lives, stopped or not. In S3 it is a
    lease, which another run takes over when it was not renewed: see decision record 0074.
    """
    with lease(leases, table.name, "publish") as held, _lock_of_the_jvm(table, leases):
        yield held


def _lock_of_the_jvm(table: HudiTable, leases: str) -> AbstractContextManager[None]:
    """The JVM's own lock on a local file, beside the lease that this process holds.

    The JVM writes, and it may live on for a moment when this process is killed and its lease released.
    """
    if "://" in leases:
        return contextlib.nullcontext()
    return _locked(table.session, Path(leases) / f"{table.name}.writer.lock")


@contextlib.contextmanager
def _locked(session: SparkSession, path: Path) -> Iterator[None]:
    file = java_class(session, "java.io.RandomAccessFile")(str(path), "rw")
    try:
        file.getChannel().lock()  # waits; two threads of one JVM have the lease between them
        yield
    finally:
        file.close()
