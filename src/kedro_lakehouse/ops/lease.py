"""An advisory lease on a table: one run works on it at a time, and a dead run holds nothing."""

from __future__ import annotations

import contextlib
import fcntl
import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from kedro_lakehouse.names import TableName

logger = logging.getLogger(__name__)


@contextlib.contextmanager
def lease(folder: Path, table: TableName, stage: str) -> Iterator[None]:
    """Hold the lease of one stage of a table while the block runs; wait for the run that has it.

    The operating system releases the lock of a process that dies, however it dies. The lease only
    spares two runs from planning in vain: a commit is safe without it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{table}.{stage}.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("%s: waiting for another run that works on it (%s)", table, stage)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
