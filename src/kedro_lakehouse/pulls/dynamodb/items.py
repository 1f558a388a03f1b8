"""Items of DynamoDB as lines of plain JSON, and places in a scan as JSON that can be kept."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

_BYTES: Final = "B"
_SETS: Final = frozenset({"SS", "NS", "BS"})


def line_of(item: Mapping[str, Mapping[str, Any]]) -> bytes:
    """An item as an object in JSON. Numbers keep their digits, bytes are Base64, sets are sorted lists.

    Source:
        Amazon DynamoDB Developer Guide, "Data type descriptors".

    Example:
        >>> line_of({"id": {"N": "1.10"}, "tags": {"SS": ["b", "a"]}, "gone": {"NULL": True}})
        b'{"id":1.10,"tags":["a","b"],"gone":null}'
    """
    return _object(item).encode()


def _object(members: Mapping[str, Mapping[str, Any]]) -> str:
    return "{" + ",".join(f"{_text(name)}:{_value(value)}" for name, value in members.items()) + "}"


def _value(typed: Mapping[str, Any]) -> str:
    ((kind, value),) = typed.items()
    if kind == "M":
        return _object(value)
    if kind == "L":
        return f"[{','.join(map(_value, value))}]"
    if kind in _SETS:
        return f"[{','.join(sorted(_value({kind[0]: one}) for one in value))}]"
    if kind == "N":
        return str(value)  # the digits as they are stored: a float would change them
    if kind == _BYTES:
        return _text(base64.b64encode(bytes(value)).decode())
    return "null" if kind == "NULL" else json.dumps(value, ensure_ascii=False)


def _text(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def kept(key: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """A key by which a scan goes on, as JSON: bytes, which a key may have, are Base64."""
    return {
        name: {k: base64.b64encode(bytes(v)).decode() if k == _BYTES else v for k, v in typed.items()}
        for name, typed in key.items()
    }


def as_key(state: Mapping[str, Any]) -> dict[str, Any]:
    """The key that was ``kept``."""
    return {
        name: {k: base64.b64decode(v) if k == _BYTES else v for k, v in typed.items()}
        for name, typed in state.items()
    }
