"""An advisory lease on a table: one run works on it at a time, and a dead run holds nothing."""

from __future__ import annotations

import contextlib
import fcntl
import logging
from pathlib import Path
from typing import TYPE_CHECKING

from kedro_lakehouse.errors import UnsupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kedro_lakehouse.names import TableName

logger = logging.getLogger(__name__)


def lease(folder: str, table: TableName, stage: str) -> contextlib.AbstractContextManager[None]:
    """Hold the lease of one stage of a table while the block runs; wait for the run that has it.

    The lease only spares two runs from planning in vain: a commit is safe without it.

    Raises:
        UnsupportedError: The folder is neither a local one nor in S3.
    """
    if "://" not in folder:
        return _file_lease(Path(folder), table, stage)
    if not folder.startswith("s3://"):
        raise UnsupportedError(
            what=f"There are no leases in {folder}.", remedy="Let `lakehouse` be a path or begin with s3://."
        )
    from kedro_lakehouse.ops.object_lease import object_lease

    return object_lease(folder, table, stage)


@contextlib.contextmanager
def _file_lease(folder: Path, table: TableName, stage: str) -> Iterator[None]:
    """Hold a lock on a file: the operating system releases that of a process that dies, however it dies."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{table}.{stage}.lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("%s: waiting for another run that works on it (%s)", table, stage)
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
