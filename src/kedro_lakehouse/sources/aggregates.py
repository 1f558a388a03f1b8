"""Records of Kinesis that hold several user records, as the Kinesis Producer Library packs them.

Source:
    Amazon Kinesis Producer Library, "KPL aggregated record format": four bytes of magic, a message of
    Protocol Buffers (proto2), and the MD5 digest of this message.
    Protocol Buffers, "Encoding": tags, varints and length-delimited fields.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

MAGIC: Final = b"\xf3\x89\x9a\xc2"
_DIGEST: Final = 16
_VARINT, _EIGHT_BYTES, _DELIMITED, _FOUR_BYTES = 0, 1, 2, 5
_PARTITION_KEYS, _RECORDS = 1, 3
_KEY_INDEX, _DATA = 1, 3
_BITS: Final = 64


class _BrokenError(ValueError):
    """Bytes that are no such message."""


def user_records(data: bytes) -> list[tuple[str, bytes]] | None:
    """The partition key and the data of each user record in an aggregate, in their order.

    None if it is a record like any other, or an aggregate that is broken: cut, changed, or not as described.

    Example:
        >>> user_records(b'{"id": 1}') is None
        True
    """
    if not data.startswith(MAGIC):
        return None
    message, digest = data[len(MAGIC) : -_DIGEST], data[-_DIGEST:]
    if hashlib.md5(message, usedforsecurity=False).digest() != digest:
        return None
    try:
        return _unpacked(message)
    except (_BrokenError, IndexError, UnicodeDecodeError):
        return None


def _unpacked(message: bytes) -> list[tuple[str, bytes]]:
    keys, records = list[str](), list[tuple[int, bytes]]()
    for number, value in _fields(message):
        if number == _PARTITION_KEYS:
            keys.append(_bytes(value).decode())
        elif number == _RECORDS:
            records.append(_record(_bytes(value)))
    return [(keys[index], data) for index, data in records]


def _record(message: bytes) -> tuple[int, bytes]:
    """The index of a user record's partition key, and its data; what else it has is passed over."""
    found = dict(_fields(message))
    index, data = found.get(_KEY_INDEX), found.get(_DATA)
    if not isinstance(index, int) or data is None:
        raise _BrokenError
    return index, _bytes(data)


def _bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise _BrokenError
    return value


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The fields of a message by their numbers; those of a fixed length, which are not ours, as bytes."""
    at, value = 0, 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield tag >> 3, value
            continue
        if kind == _DELIMITED:
            length, at = _varint(message, at)
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            length = 8 if kind == _EIGHT_BYTES else 4
        else:
            raise _BrokenError
        if at + length > len(message):
            raise _BrokenError
        yield tag >> 3, message[at : at + length]
        at += length


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, the least first, and where it ends."""
    number = 0
    for shift in range(0, _BITS + 6, 7):
        byte = message[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:  # noqa: PLR2004 - the bit says that more follow
            return number, at
    raise _BrokenError
