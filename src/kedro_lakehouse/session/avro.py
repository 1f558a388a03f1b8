"""Read small Avro files, such as Iceberg's manifests, without pyiceberg, which is slow to import.

Source:
    The Avro specification 1.12.0: binary encoding, object container files.
"""

from __future__ import annotations

import json
import struct
import zlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    _Decode = Callable[[], Any]

_MAGIC: Final = b"Obj\x01"
_SYNC: Final = 16
"""Bytes of the mark that ends each block."""
_MORE: Final = 0x80
"""The bit of a byte that says that an integer goes on in the next one."""


def read_avro(raw: bytes) -> Iterator[Any]:
    """The records of an Avro file, in its order.

    Raises:
        ValueError: It is no Avro file, it is cut off, or something in it is of a kind that is not known here.
    """
    file = _Bytes(raw)
    if file.take(len(_MAGIC)) != _MAGIC:
        raise ValueError("not an Avro file")
    header = file.pairs(file.data)
    schema, codec = json.loads(header["avro.schema"]), header.get("avro.codec", b"null")
    mark = file.take(_SYNC)
    while not file.at_end:
        count, packed = file.integer(), file.data()
        if file.take(_SYNC) != mark:
            raise ValueError("a block does not end where it should")
        decode = _decoder(schema, _Bytes(_unpacked(packed, codec)), {})
        yield from (decode() for _ in range(count))


def _unpacked(packed: bytes, codec: bytes) -> bytes:
    if codec == b"null":
        return packed
    if codec != b"deflate":
        raise ValueError(f"unknown codec {codec.decode()}")
    try:
        return zlib.decompress(packed, wbits=-zlib.MAX_WBITS)
    except zlib.error as error:
        raise ValueError("a block is damaged") from error


class _Bytes:
    """Bytes that are read from the front, and the values that Avro writes into them."""

    def __init__(self, raw: bytes) -> None:
        self._raw, self._place = raw, 0

    @property
    def at_end(self) -> bool:
        return self._place >= len(self._raw)

    def take(self, size: int) -> bytes:
        """The next bytes, so many."""
        begin, self._place = self._place, self._place + size
        if size < 0 or self._place > len(self._raw):
            raise ValueError("the file is cut off")
        return self._raw[begin : self._place]

    def integer(self) -> int:
        """An integer: seven bits a byte, the lowest first; its sign is the lowest bit of all."""
        shift = value = 0
        while True:
            (byte,) = self.take(1)
            value |= (byte & ~_MORE) << shift
            shift += 7
            if not byte & _MORE:
                return (value >> 1) ^ -(value & 1)

    def data(self) -> bytes:
        return self.take(self.integer())

    def text(self) -> str:
        return self.data().decode()

    def boolean(self) -> bool:
        return self.take(1) == b"\x01"

    def number(self, code: str) -> float:
        """A floating-point number, of the size that the code of ``struct`` says."""
        (value,) = struct.unpack(code, self.take(struct.calcsize(code)))
        return float(value)

    def items(self, decode: _Decode) -> list[Any]:
        """The items of an array, which come in blocks."""
        found: list[Any] = []
        while count := self.integer():
            if count < 0:
                self.integer()  # the block's size in bytes
            found += [decode() for _ in range(abs(count))]
        return found

    def pairs(self, decode: _Decode) -> dict[str, Any]:
        """The pairs of a map."""
        return dict(self.items(lambda: (self.text(), decode())))


def _decoder(schema: Any, file: _Bytes, named: dict[str, _Decode]) -> _Decode:
    """What reads the next value of a schema; ``named`` holds the types that were named before."""
    if isinstance(schema, list):
        return partial(_branch, file, [_decoder(branch, file, named) for branch in schema])
    if isinstance(schema, str):
        return named[schema] if schema in named else _simple(schema, file)
    made = _compound(schema, file, named)
    if "name" in schema:
        named[schema["name"]] = made
    return made


def _branch(file: _Bytes, branches: list[_Decode]) -> Any:
    """The next value of a union: its branch comes first."""
    return branches[file.integer()]()


def _simple(kind: str, file: _Bytes) -> _Decode:
    kinds: dict[str, _Decode] = {
        "null": lambda: None,
        "boolean": file.boolean,
        "int": file.integer,
        "long": file.integer,
        "float": lambda: file.number("<f"),
        "double": lambda: file.number("<d"),
        "bytes": file.data,
        "string": file.text,
    }
    if kind not in kinds:
        raise ValueError(f"unknown type {kind}")
    return kinds[kind]


def _compound(schema: dict[str, Any], file: _Bytes, named: dict[str, _Decode]) -> _Decode:
    kind = schema["type"]
    if kind == "record":
        fields = [(field["name"], _decoder(field["type"], file, named)) for field in schema["fields"]]
        return lambda: {name: decode() for name, decode in fields}
    if kind == "fixed":
        size = schema["size"]
        return lambda: file.take(size)
    if kind == "array":
        items = _decoder(schema["items"], file, named)
        return lambda: file.items(items)
    if kind == "map":
        values = _decoder(schema["values"], file, named)
        return lambda: file.pairs(values)
    return _decoder(kind, file, named)  # a simple type with a logical one: the stored value is returned
