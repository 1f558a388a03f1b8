"""What was read of small files of tables is kept: they never change, and small batches read them again."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

_MOST_OF_ONE: Final = 256 * 2**10
_MOST: Final = 32 * 2**20
_OF_A_BUFFER: Final = 2**10
"""What a buffer and its key take beside its bytes."""


class KeptFiles:
    """Rows of small files, those that were asked for last; several threads may ask at once.

    Rows are kept as one buffer each, in Arrow's format for messages, and are read from it without a copy. As
    tables they took 24 KB more a file, in many small buffers, and the memory between these was of no use.
    """

    def __init__(self, most: int = _MOST, most_of_one: int = _MOST_OF_ONE) -> None:
        """Keep nothing yet.

        Args:
            most: So many bytes of memory are used.
            most_of_one: Rows of more bytes are not kept.
        """
        self._most, self._most_of_one, self._size = most, most_of_one, 0
        self._kept: dict[Hashable, pa.Buffer] = {}
        self._lock = threading.Lock()

    def rows(self, key: Hashable, read: Callable[[], pa.Table]) -> pa.Table:
        """The rows of a file, read unless they are kept.

        Args:
            key: The file, and all that its rows depend on beside it.
            read: Reads them.
        """
        with self._lock:
            found = self._kept.pop(key, None)
            if found is not None:
                self._kept[key] = found  # the last one again
        if found is not None:
            return pa.ipc.open_stream(found).read_all()
        rows = read()
        if rows.nbytes <= self._most_of_one:
            self._keep(key, _as_one_buffer(rows))
        return rows

    def _keep(self, key: Hashable, found: pa.Buffer) -> None:
        with self._lock:
            self._size += _memory(found) - (_memory(self._kept[key]) if key in self._kept else 0)
            self._kept[key] = found
            while self._size > self._most:
                self._size -= _memory(self._kept.pop(next(iter(self._kept))))


def _as_one_buffer(rows: pa.Table) -> pa.Buffer:
    written = pa.BufferOutputStream()
    with pa.ipc.new_stream(written, rows.schema) as stream:
        stream.write_table(rows)
    return written.getvalue()


def _memory(found: pa.Buffer) -> int:
    """About how much memory a kept buffer uses."""
    size: int = found.size
    return size + _OF_A_BUFFER
