"""What was read of small files of tables is kept: they never change, and small batches read them again."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable

    import pyarrow as pa

_MOST_OF_ONE: Final = 256 * 2**10
_MOST: Final = 64 * 2**20
_OF_A_TABLE: Final = 24 * 2**10
"""What a table of Arrow takes beside its rows, as measured: its buffers are many and small."""


class KeptFiles:
    """Rows of small files, those that were asked for last; several threads may ask at once."""

    def __init__(self, most: int = _MOST, most_of_one: int = _MOST_OF_ONE) -> None:
        """Keep nothing yet.

        Args:
            most: So many bytes of memory are used: see ``_memory``.
            most_of_one: Rows of more bytes are not kept.
        """
        self._most, self._most_of_one, self._size = most, most_of_one, 0
        self._rows: dict[Hashable, pa.Table] = {}
        self._lock = threading.Lock()

    def rows(self, key: Hashable, read: Callable[[], pa.Table]) -> pa.Table:
        """The rows of a file, read unless they are kept.

        Args:
            key: The file, and all that its rows depend on beside it.
            read: Reads them.
        """
        with self._lock:
            found = self._rows.pop(key, None)
            if found is not None:
                self._rows[key] = found  # the last one again
                return found
        found = read()
        if found.nbytes <= self._most_of_one:
            with self._lock:
                self._size += _memory(found) - (_memory(self._rows[key]) if key in self._rows else 0)
                self._rows[key] = found
                while self._size > self._most:
                    self._size -= _memory(self._rows.pop(next(iter(self._rows))))
        return found


def _memory(rows: pa.Table) -> int:
    """About how much memory the rows of a file use."""
    of_rows: int = rows.nbytes
    return of_rows + _OF_A_TABLE
