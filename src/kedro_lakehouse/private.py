"""Folders and files that their owner alone may read: the lakehouse on a local disk, its catalog, its logs.

The folder of the lakehouse is what protects: whoever may not enter it reaches nothing below it, whatever the
modes there. The JVM writes files too, by the process's umask; no mode of ours reaches them.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import stat
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pathlib import Path

logger = logging.getLogger(__name__)

CONSOLE_TOKEN: Final = "KEDRO_LAKEHOUSE_CONSOLE_TOKEN"  # noqa: S105 - its name
"""The variable by which the console's server gets its token: others see a process's words, no variables."""
CONSOLE_ROLE: Final = "KEDRO_LAKEHOUSE_CONSOLE_ROLE"
"""The variable by which it is told the role of grants.yml whose view it shows."""
_FOLDER: Final = 0o700
_FILE: Final = 0o600
_OTHERS: Final = stat.S_IRWXG | stat.S_IRWXO
_warned: Final[set[str]] = set()


def private_folder(folder: Path) -> Path:
    """The folder, made where it is missing with all above it that is missing; others may not enter it.

    One that others may enter is closed to them if it is ours. If it is not, or its file system keeps no
    modes, that is told once a process, and nothing fails.

    Raises:
        PermissionError: The file system takes no folders of users, as that of ``/proc``.
        NotADirectoryError: Something else than a folder is on the way to it.
    """
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        try:
            one.mkdir(mode=_FOLDER, exist_ok=True)
        except FileNotFoundError as error:  # although all above it is there
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM), str(folder)) from error
        except FileExistsError as error:  # a file, or a link that leads nowhere
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR), str(folder)) from error
    _close(folder, _FOLDER)
    return folder


def private_file(file: Path) -> Path:
    """The file, made empty where it is missing; others may not read it, where that is ours to say.

    One that is there is never opened: a process that closes a file loses all locks that it has on it, and
    SQLite's are such locks.
    """
    with contextlib.suppress(FileExistsError):
        os.close(os.open(file, os.O_CREAT | os.O_EXCL, _FILE))
    _close(file, _FILE)
    return file


def _close(path: Path, mode: int) -> None:
    if _is_open(path) and _is_ours(path):
        with contextlib.suppress(OSError):  # a mounted share may refuse it
            path.chmod(mode)
    if _is_open(path) and str(path) not in _warned:
        _warned.add(str(path))
        logger.warning("Other users of this machine may read %s, and it cannot be closed to them.", path)


def _is_ours(path: Path) -> bool:
    """Whether it belongs to who runs this, and is not made for many, as ``/tmp`` is."""
    facts = path.stat()
    return facts.st_uid == os.geteuid() and not facts.st_mode & stat.S_ISVTX


def _is_open(path: Path) -> bool:
    return bool(path.stat().st_mode & _OTHERS)
