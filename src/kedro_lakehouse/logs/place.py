"""Where logs are stored: a local folder, or object storage, to which a run's log is uploaded at its end."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from kedro_lakehouse.private import private_folder

if TYPE_CHECKING:
    from collections.abc import Collection

PYTHON_LINES: Final = ".jsonl"
JVM_LINES: Final = ".jvm.jsonl"
"""Endings of the names of a run's files: the lines of Python, and those of the JVM."""


class LogPlace:
    """The files of one folder, by name; nothing is read or made before it is asked for."""

    def __init__(self, address: str) -> None:
        """Keep the address: a path, or one that fsspec understands."""
        from fsspec.core import url_to_fs
        from fsspec.implementations.local import LocalFileSystem

        self._fs: Any = LocalFileSystem()
        self._root, self._is_local = address, "://" not in address
        if not self._is_local:
            self._fs, self._root = url_to_fs(address)

    def writing_folder(self) -> Path:
        """A local folder to write a log into: the place itself, or a temporary one."""
        if not self._is_local:
            return Path(tempfile.mkdtemp(prefix="kedro-lakehouse-logs-"))
        return private_folder(Path(self._root))

    def take(self, folder: Path) -> None:
        """Store what was written into a writing folder; a temporary folder is deleted afterwards.

        Raises:
            OSError: The storage does not take it; the folder stays.
        """
        if self._is_local:
            return
        for file in sorted(folder.iterdir()):
            self._fs.put_file(str(file), f"{self._root}/{file.name}")
        shutil.rmtree(folder)

    def names(self) -> list[str]:
        """The names of the files, sorted; none where there is no such folder."""
        self._fs.invalidate_cache()
        try:
            found = self._fs.ls(self._root, detail=False)
        except FileNotFoundError:
            return []
        return sorted(path.rstrip("/").rpartition("/")[2] for path in found)

    def open(self, name: str) -> IO[str]:
        """A file as text."""
        opened: IO[str] = self._fs.open(f"{self._root}/{name}", "r", encoding="utf-8", errors="replace")
        return opened

    def remove(self, names: Collection[str]) -> None:
        """Delete files; one that another run has deleted meanwhile is skipped."""
        for name in names:
            try:
                self._fs.rm_file(f"{self._root}/{name}")
            except FileNotFoundError:
                continue
