"""Deletion vectors of Delta: the positions in a data file whose rows are deleted."""

from __future__ import annotations

import struct
import uuid
import zlib
from typing import TYPE_CHECKING, Any, Final

from pyroaring import BitMap64

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

_MAGIC: Final = 1681511377
"""Begins a vector that is a 64-bit roaring bitmap in the portable form."""
_VERSION: Final = b"\x01"
_Z85: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_WORD, _ID_WORDS = 5, 4
"""Characters of four bytes in Z85, and how many such words an id of 16 bytes takes."""


def read_vector(folder: Path, described: Mapping[str, Any]) -> BitMap64:
    """The deleted positions that a data file's entry in the log names.

    Raises:
        ValueError: The vector is stored in another way than in a file of the table's folder or in the log.

    Source:
        Delta Transaction Log Protocol, "Deletion Vectors".
    """
    kind, place = described["storageType"], str(described["pathOrInlineDv"])
    if kind == "i":
        data = _unpacked(place)[: int(described["sizeInBytes"])]
    elif kind == "u":
        ends = len(place) - _WORD * _ID_WORDS
        name = f"deletion_vector_{uuid.UUID(bytes=_unpacked(place[ends:]))}.bin"
        whole = (folder / place[:ends] / name).read_bytes()
        start = int(described.get("offset") or 0)
        (size,) = struct.unpack_from(">i", whole, start)
        data = whole[start + 4 : start + 4 + size]
    else:
        raise ValueError(f"a deletion vector of kind {kind}")
    if struct.unpack_from("<i", data)[0] != _MAGIC:
        raise ValueError("a deletion vector in another form than a portable bitmap")
    return BitMap64.deserialize(data[4:])


def write_vector(folder: Path, positions: Iterable[int]) -> tuple[dict[str, Any], Path]:
    """Write deleted positions to a new file; return how an entry of the log names it, and its path."""
    bitmap = BitMap64(positions)
    data = struct.pack("<i", _MAGIC) + bitmap.serialize()
    made = uuid.uuid4()
    path = folder / f"deletion_vector_{made}.bin"
    path.write_bytes(_VERSION + struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data)))
    described = {
        "storageType": "u",
        "pathOrInlineDv": _packed(made.bytes),
        "offset": len(_VERSION),
        "sizeInBytes": len(data),
        "cardinality": len(bitmap),
    }
    return described, path


def _packed(data: bytes) -> str:
    """Bytes as Z85, which writes four bytes as five characters."""
    text = ""
    for (number,) in struct.iter_unpack(">I", data):
        text += "".join(_Z85[number // 85**place % 85] for place in range(_WORD - 1, -1, -1))
    return text


def _unpacked(text: str) -> bytes:
    data = b""
    for start in range(0, len(text), _WORD):
        number = 0
        for sign in text[start : start + _WORD]:
            number = number * 85 + _Z85.index(sign)
        data += struct.pack(">I", number)
    return data
