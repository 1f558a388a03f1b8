"""Rows as MariaDB and MySQL send them become columns of Arrow, without an object of Python for each value.

A row is a packet: three bytes of length, one that counts packets, then each value as its length and its text.
A packet that begins with 254 ends the rows. Source: the text protocol in the manuals of both servers.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from numpy.typing import NDArray

_BLOCK: Final = 4 * 2**20
"""So many bytes of packets become one chunk, or one row if that has more."""
_HEAD: Final = Struct("<I")
_HEAD_BYTES: Final = 4
_FULL: Final = 0xFFFFFF
"""The length of a packet whose row goes on in the next one, and the mask of the length in a head."""
_NULL: Final = 251
_WIDE: Final = ((252, 2), (253, 3), (254, 8))
"""First bytes of longer lengths, and the bytes that follow them."""
_END: Final = 254
_END_BYTES: Final = 9
"""A packet of fewer bytes that begins with 254 is the end; a longer one is a row with a long first value."""
_ERROR: Final = 255
_MAX_BYTES: Final = 2**31 - 1


class ErrorPacketError(Exception):
    """The server ended a result with an error."""

    def __init__(self, packet: bytes) -> None:
        """Keep the packet as the server sent it."""
        super().__init__()
        self.packet = packet


class MalformedRowsError(Exception):
    """What arrived are no rows with so many columns."""


def columns_of(receive: Callable[[], bytes], count: int) -> Iterator[list[pa.Array]]:
    """Read the rows of a result to its end, some megabytes at a time; of none there is one empty chunk.

    Args:
        receive: Gives the bytes that have arrived, and waits until there are some.
        count: How many columns the result has.

    Yields:
        For each column its values as the server wrote them, of Arrow's type ``binary``.

    Raises:
        ErrorPacketError: The server ended the result with an error.
        MalformedRowsError: What arrived are no rows with so many columns, or one has more than 2 GB.
    """
    data, rows, is_first, is_over = bytearray(), _Rows(), True, False
    while not is_over:
        data += receive()
        is_over = rows.walk(data)
        if rows.end >= _BLOCK or (is_over and (rows.starts or is_first)):
            yield _columns(data, rows, count)
            data, rows, is_first = data[rows.end :], _Rows(), False


class _Rows:
    """Where the rows in some bytes are."""

    def __init__(self) -> None:
        self.starts: list[int] = []
        """Where each row that has arrived as a whole begins, behind its head."""
        self.end = 0
        """Where the last one ends."""

    def walk(self, data: bytearray) -> bool:
        """Find the rows that have arrived since the last time; whether the result is over."""
        head, starts, at, last = _HEAD.unpack_from, self.starts, self.end, len(data) - _HEAD_BYTES
        is_over = False
        while at < last and not is_over:
            size, first = head(data, at)[0] & _FULL, data[at + _HEAD_BYTES]
            end = at + _HEAD_BYTES + size
            if size == _FULL:
                end = _joined(data, at)
                last = len(data) - _HEAD_BYTES
            if end > len(data):
                break
            if first == _ERROR:
                raise ErrorPacketError(bytes(data[at + _HEAD_BYTES : end]))
            is_over = first == _END and size < _END_BYTES
            if not is_over:
                starts.append(at + _HEAD_BYTES)
                at = end
        self.end = at
        return is_over


def _joined(data: bytearray, at: int) -> int:
    """Take the heads out of a row of several packets, once it is all there.

    Returns:
        Where the row ends; a place behind all that has arrived, if it is not all there.
    """
    heads, size = [], _FULL
    while size == _FULL:
        if at + _HEAD_BYTES > len(data):
            return len(data) + 1
        heads.append(at)
        size = _HEAD.unpack_from(data, at)[0] & _FULL
        at += _HEAD_BYTES + size
    if at > len(data):
        return at
    for inner in reversed(heads[1:]):
        del data[inner : inner + _HEAD_BYTES]
    return at - _HEAD_BYTES * (len(heads) - 1)


def _columns(data: bytearray, rows: _Rows, count: int) -> list[pa.Array]:
    """The columns of rows: each value lies in the bytes between two bounds."""
    if len(data) > _MAX_BYTES:
        raise MalformedRowsError("a row has more than 2 GB")
    if not rows.starts:
        return [pa.array([], pa.binary())] * count
    bounds = np.empty((len(rows.starts), count, 2), np.int32)
    nulls = _fill(bounds, np.frombuffer(data, np.uint8), np.array(rows.starts, np.int64), rows.end)
    # Arrow sees one array of values and of the bytes between them, in turn; each column takes its own.
    buffers = [None, pa.py_buffer(bounds), pa.py_buffer(data)]
    every = pa.Array.from_buffers(pa.binary(), bounds.size - 1, buffers)
    first = np.arange(0, bounds.size, 2 * count)
    return [every.take(pa.array(first + 2 * n, mask=null)) for n, null in enumerate(nulls)]


def _fill(
    bounds: NDArray[np.int32], buffer: NDArray[np.uint8], at: NDArray[np.int64], end: int
) -> Sequence[NDArray[np.bool_] | None]:
    """Find where each value begins and ends.

    Args:
        bounds: Takes the bounds, by row and column.
        buffer: The bytes.
        at: Where the rows begin.
        end: Where the last one ends.

    Returns:
        For each column which of its values are null; None: none is.
    """
    ends = np.append(at[1:] - _HEAD_BYTES, end)
    nulls = []
    try:
        for n in range(bounds.shape[1]):
            size, at, null = _lengths(buffer, at)
            bounds[:, n, 0] = at
            at = at + size
            bounds[:, n, 1] = at
            nulls.append(null)
    except IndexError as error:
        raise MalformedRowsError("a row ends before its last value") from error
    if not np.array_equal(at, ends):
        raise MalformedRowsError("a row ends elsewhere than its last value")
    return nulls


def _lengths(
    buffer: NDArray[np.uint8], at: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_] | None]:
    """The length of each value that begins with one, where the value itself begins, and which are null."""
    marks = buffer[at]
    size, at = marks.astype(np.int64), at + 1
    if marks.max() < _NULL:
        return size, at, None
    for mark, width in _WIDE:
        which = np.flatnonzero(marks == mark)
        here = at[which]
        size[which] = sum(buffer[here + i].astype(np.int64) << 8 * i for i in range(width))
        at[which] += width
    null = marks == _NULL
    size[null] = 0
    return size, at, null
