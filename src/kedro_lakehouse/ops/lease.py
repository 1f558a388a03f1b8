"""An advisory lease on a table: one run works on it at a time, and a dead run holds nothing."""

from __future__ import annotations

import fcntl
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol, Self

from kedro_lakehouse.errors import LeaseLostError, UnsupportedError
from kedro_lakehouse.private import private_folder

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from kedro_lakehouse.names import TableName

logger = logging.getLogger(__name__)

_LOCK: Final = ".lock"


class Lease(Protocol):
    """A lease that a run took. It saves work and nothing more: no commit depends on it."""

    def check(self) -> None:
        """Return if the lease is still held as far as this process can know; asks no store.

        Raises:
            LeaseLostError: Another run has it, or may have it by now.
        """

    def confirm(self) -> None:
        """Return if the store itself confirms that the lease is still held.

        Raises:
            LeaseLostError: Another run has it, or the store does not answer.
        """


def lease(folder: str, table: TableName, stage: str) -> AbstractContextManager[Lease]:
    """Hold the lease of one stage of a table while the block runs; wait for the run that has it.

    The lease only spares two runs from planning in vain: a commit is safe without it.

    Raises:
        UnsupportedError: The folder is neither a local one nor in S3.
    """
    if "://" not in folder:
        return _FileLease(Path(folder), table, stage)
    if not folder.startswith("s3://"):
        raise UnsupportedError(
            what=f"There are no leases in {folder}.", remedy="Let `lakehouse` be a path or begin with s3://."
        )
    from kedro_lakehouse.ops.object_lease import object_lease

    return object_lease(folder, table, stage)


def held_leases(folder: str) -> set[str]:
    """The leases that runs hold now, as ``<table>.<stage>``; takes none and waits for none."""
    if "://" in folder:
        from kedro_lakehouse.ops.object_lease import held_objects

        return held_objects(folder)
    return {path.name.removesuffix(_LOCK) for path in Path(folder).glob(f"*{_LOCK}") if _is_locked(path)}


def _is_locked(path: Path) -> bool:
    with path.open() as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


class _FileLease:
    """A lock on a file: the operating system releases it when the process dies, however it dies."""

    def __init__(self, folder: Path, table: TableName, stage: str) -> None:
        self._path, self._table, self._stage = folder / f"{table}.{stage}{_LOCK}", table, stage

    def __enter__(self) -> Self:
        private_folder(self._path.parent)
        self._handle = self._path.open("w")
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            logger.info("%s: waiting for another run that works on it (%s)", self._table, self._stage)
            fcntl.flock(self._handle, fcntl.LOCK_EX)
        return self

    def __exit__(self, *_: object) -> None:
        self._handle.close()

    def check(self) -> None:
        """Return unless the file was removed: another run would lock a new one."""
        try:
            there = self._path.stat()
        except FileNotFoundError as error:
            raise LeaseLostError(table=self._table, stage=self._stage) from error
        if not os.path.samestat(there, os.fstat(self._handle.fileno())):
            raise LeaseLostError(table=self._table, stage=self._stage)

    confirm = check
